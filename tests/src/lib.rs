//! What the tests, the demo and the benches share: real nodes made of network namespaces.
//!
//! Every name that is visible outside the process (namespaces, pin directories, temporary files)
//! is unique per process and object, and is removed on drop, also while a test panics. What a run
//! that was killed left behind is removed by the next one ([`leftovers`]).
//!
//! Processes run inside a namespace through `nsenter --net=`, never `ip netns exec`: the latter
//! mounts `/sys` afresh, and every pin below `/sys/fs/bpf` vanishes from the process's sight.
//!
//! Errors are `anyhow` errors, since nobody but a test, the demo or a bench ever handles one.

#![forbid(unsafe_code)]

pub mod cluster;
mod command;
pub mod egress;
pub mod eventually;
pub mod fencing;
pub mod http;
pub mod kernel;
pub mod kubernetes;
pub mod leftovers;
mod link;
pub mod loss;
pub mod metrics;
pub mod netns;
pub mod node;
pub mod overlay;
pub mod pins;
pub mod process;
mod repeatedly;
pub mod report;
mod seeds;
mod unique;

pub use cluster::{Cluster, Direction, LinkState};
pub use command::{bin_dir, run};
pub use eventually::{eventually, within};
pub use netns::Netns;
pub use node::Node;
pub use process::Process;
pub use repeatedly::Repeatedly;
pub use seeds::seeds;

/// A signal to send with [`Process::signal`].
pub use nix::sys::signal::Signal;
