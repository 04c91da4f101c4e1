//! Never two owners: what leaves the nodes from an egress IP, frame by frame, while nodes, agents and
//! the controller fail.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod quorum;
mod random;
mod schedules;
mod sets;
