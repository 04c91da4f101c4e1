//! How long it takes until a failure is known: from the failure to the line in the stream of
//! transitions, 50 failures of each kind, in each attach mode, with and without large frames.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod agents;
mod figures;
mod links;
mod scene;
mod switch;
mod watch;
