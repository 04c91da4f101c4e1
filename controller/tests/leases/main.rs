//! The planner, and the kernel's own lease arithmetic, in clusters in which everything fails at random:
//! no two nodes' fences ever pass the same address.
//!
//! Planner, record, orders and duties are the real ones; so is what the kernel does with RENEW and VOTE.
//! Agents, witnesses, the prober and the network are small models of theirs. Time is simulated, and
//! everything that happens follows from a seed.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

mod agent;
mod controller;
mod faults;
mod kernel;
mod network;
mod random;
mod schedules;
mod witness;
mod world;
