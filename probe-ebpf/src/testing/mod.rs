//! What tests of the packet logic need, on the host and in the kernel: frames made by a foreign
//! codec, a node, and a table of cases that both engines must decide alike.

#![expect(
    clippy::unwrap_used,
    reason = "test support: a panic fails the test that called it"
)]

mod cases;
mod fence;
mod frames;
mod lease;
mod node;
mod segments;
mod tunnel;

pub use cases::{Case, cases};
pub use fence::{FenceCase, HostGuards, fence_cases};
pub use frames::{FrameSpec, assert_reply, probe_frame};
pub use lease::{LeaseCase, LeaseStep, lease_cases};
pub use node::{
    HostNode, LEASE_LIMIT_MS, OTHER_KEY, SOURCE_V4, SOURCE_V6, WITNESSES, request, test_node,
    witness_set,
};
pub use segments::{SegmentCase, segment_cases};
pub use tunnel::{TunnelCase, tunnel_cases, tunnel_config};
