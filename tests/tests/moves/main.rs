//! Egress IPs that move, or do not: a controller, agents, and a client that looks at the outcome.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod outage;
mod scene;
mod sequence;
