//! The agent, in a real namespace and against the real kernel.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod adopt;
mod bpf;
mod checks;
mod detach;
mod inspect;
mod interfaces;
mod layout;
mod modes;
mod probe;
mod refusals;
mod subject;
mod user_space;
