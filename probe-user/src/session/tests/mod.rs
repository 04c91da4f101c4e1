//! The core, driven by a clock that the tests move.

mod matching;
mod model;
mod renewals;
mod rounds;
mod scale;
mod world;
