//! What the kernel programs and user space must agree on: the probe's wire format, the layout of
//! the maps, and the packet logic itself.
//!
//! The library is `no_std` and depends on nothing, so the same code is compiled into the kernel
//! programs and tested, byte for byte, on the host. It holds no loader, no socket and no clock.

#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(any(test, feature = "testing"))]
extern crate std;

pub mod checksum;
pub mod fence;
pub mod frame;
mod headers;
pub mod lease;
pub mod maps;
pub mod outcome;
pub mod reflect;
pub mod siphash;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tunnel;
pub mod wire;
