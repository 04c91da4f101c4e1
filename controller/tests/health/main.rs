//! The rules for a node's state, as the health core applies them.

mod evidence;
mod lasting;
mod model;
mod monitoring;
mod restored;
mod rules;
mod simulation;
mod world;
