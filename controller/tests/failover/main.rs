//! The failover planner, told what happens and asked what follows.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

mod candidates;
mod fencing;
mod guard;
mod moves;
mod ovn_kubernetes;
mod placement;
mod properties;
mod quorum;
mod recording;
mod restarts;
mod scale;
mod testimonies;
mod world;
