//! The tunnel counters, on nodes with real VXLAN between them.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod chain;
mod counts;
mod flood;
mod scene;
mod upgrade;
mod verdicts;
