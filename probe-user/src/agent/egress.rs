//! The node's egress IPs as part of the agent.

use std::future::ready;
use std::path::PathBuf;

use anyhow::Result;
use tokio::sync::mpsc::Receiver;
use tokio::task::spawn_blocking;

use super::fence::{FenceRequest, KernelFence};
use super::reflector::Reflector;
use super::settings::Settings;
use super::user_space::SharedNode;
use crate::egress::{Assignment, Egress, Handle, NoFence, Options, Outcome, Pending};
use crate::kernel::{Maps, WitnessSet};

/// Starts the task that holds the node's egress IPs, where a controller may tell the agent of some,
/// or an earlier agent has left some, with which it goes on. Elsewhere the agent needs no right to
/// change addresses.
///
/// Which devices need a fence comes out of the receiver.
pub(super) fn start(
    settings: &Settings,
    reflector: &Reflector,
) -> Result<Option<(Handle, Option<Receiver<FenceRequest>>)>> {
    let may_be_told = settings.control.security()?.is_some();
    if !may_be_told && !settings.egress.state_file.exists() {
        return Ok(None);
    }
    let options = Options {
        interface: settings.egress.interface.clone(),
        set_sysctls: settings.egress.set_sysctls,
        state_file: settings.egress.state_file.clone(),
    };
    Ok(Some(match reflector {
        Reflector::Kernel(kernel) => {
            let assignment = KernelAssignment {
                maps: Maps::open(kernel.directory())?,
                directory: kernel.directory().to_owned(),
            };
            let (fence, requests) = KernelFence::open(kernel.directory())?;
            let handle = Egress::start(options, Box::new(assignment), Box::new(fence))?;
            (handle, Some(requests))
        }
        Reflector::UserSpace(reflector) => {
            let assignment = reflector.node().clone();
            let handle = Egress::start(options, Box::new(assignment), Box::new(NoFence))?;
            (handle, None)
        }
    }))
}

/// The assignment in the kernel, where it outlives the agent.
struct KernelAssignment {
    maps: Maps,
    directory: PathBuf,
}

impl Assignment for KernelAssignment {
    fn incarnation(&self) -> Outcome<u64> {
        Ok(self.maps.assignment()?.incarnation)
    }

    fn applied_epoch(&self) -> Outcome<u64> {
        Ok(self.maps.assignment()?.applied_epoch)
    }

    fn witness_version(&self) -> Outcome<u64> {
        Ok(self.maps.assignment()?.witness_version)
    }

    fn set_lease_limit(&mut self, lease_ms: u32) -> Outcome<()> {
        Ok(self.maps.set_lease_limit(lease_ms)?)
    }

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        Ok(self.maps.set_applied_epoch(epoch)?)
    }

    /// Waits for programs that run, which the beat must not.
    fn set_witnesses(&mut self, set: WitnessSet) -> Pending<()> {
        let directory = self.directory.clone();
        let set = move || Maps::open(&directory)?.set_witnesses(&set);
        Box::pin(async { Ok(spawn_blocking(set).await??) })
    }
}

/// In user space it ends with the agent, and so do the node's egress IPs: the next agent lets go of
/// what it finds, and waits to be told.
impl Assignment for SharedNode {
    fn incarnation(&self) -> Outcome<u64> {
        Ok(self.lock().last_assignment().incarnation)
    }

    fn applied_epoch(&self) -> Outcome<u64> {
        Ok(self.lock().last_assignment().applied_epoch)
    }

    fn witness_version(&self) -> Outcome<u64> {
        Ok(self.lock().last_assignment().witness_version)
    }

    fn set_lease_limit(&mut self, _lease_ms: u32) -> Outcome<()> {
        // It has none, whatever the limit.
        Ok(())
    }

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        self.lock().set_applied_epoch(epoch);
        Ok(())
    }

    fn set_witnesses(&mut self, set: WitnessSet) -> Pending<()> {
        // Nobody extends a lease that there is not, whoever votes.
        self.lock().set_witness_version(set.version);
        Box::pin(ready(Ok(())))
    }
}
