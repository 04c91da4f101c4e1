//! The node's network, as the kernel shows it and takes changes.
//!
//! [`links`], [`policy`] and [`sysctl`] are addresses and what they need, [`nft`] and [`conntrack`] the packet
//! filter, [`wire`] what is said on the link. None of them decides anything.

pub(super) mod conntrack;
mod error;
pub(super) mod links;
mod netfilter;
pub(super) mod nft;
pub(super) mod policy;
pub(super) mod sysctl;
pub(super) mod wire;

pub(super) use error::NetError;
