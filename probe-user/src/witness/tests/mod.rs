//! Tests of the core, on a simulated clock.

mod duties;
mod promises;
mod questions;
mod world;
