//! The control channel between real servers and real clients: who is let in, what a hung agent
//! means for others, what a pushed key does to a node.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod agent;
mod asking;
mod certificates;
mod consumers;
mod health;
mod pool;
mod reach;
mod scene;
