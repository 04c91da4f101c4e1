//! Egress IPs move between real nodes: real agents, a real controller, cut and mended links.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

mod flapping;
mod holds;
mod restarts;
mod sequences;
mod world;
