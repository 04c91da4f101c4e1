//! What the task that applies egress IPs needs of the kernel's fence.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;

use probe_ebpf::maps::Guard;

/// A result of whoever is asked.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A result that takes its time.
pub type Pending<T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send>>;

/// Why some of the devices are not fenced, in words, once it is known.
pub type NotFenced = Pending<Vec<String>>;

/// The fence: while the node has no lease, its kernel lets nothing leave from a guarded address.
pub trait Fencing: Send {
    /// Guards these addresses wherever there is a fence, and no others.
    fn guard(&mut self, guards: &BTreeMap<IpAddr, Guard>) -> Outcome<()>;

    /// Fences these devices, by index, and no others.
    fn fence(&mut self, devices: BTreeSet<u32>) -> NotFenced;
}

/// Where no kernel program is in force, nothing is fenced.
#[derive(Clone, Copy, Debug)]
pub struct NoFence;

impl Fencing for NoFence {
    fn guard(&mut self, _guards: &BTreeMap<IpAddr, Guard>) -> Outcome<()> {
        Ok(())
    }

    fn fence(&mut self, devices: BTreeSet<u32>) -> NotFenced {
        let why = "there are no kernel programs: the node has no lease, and nothing is fenced";
        let reasons = match devices.is_empty() {
            true => Vec::new(),
            false => vec![why.to_owned()],
        };
        Box::pin(ready(Ok(reasons)))
    }
}
