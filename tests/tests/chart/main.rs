//! The Helm chart: rendered by the real Helm, and judged by those who read what it renders. What needs
//! an API server is in the tests of Kubernetes.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod documentation;
mod helm;
mod monitoring;
mod objects;
mod refusals;
mod secrets;
mod settings;
