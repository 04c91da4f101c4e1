//! The node's egress IPs as part of the agent.

use anyhow::Result;
use tokio::sync::mpsc::Receiver;

use super::fence::{FenceRequest, KernelFence};
use super::reflector::Reflector;
use super::settings::Settings;
use super::user_space::SharedNode;
use crate::egress::{Assignment, Egress, Handle, NoFence, Options, Outcome};
use crate::kernel::Maps;

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
            let assignment = Maps::open(kernel.directory())?;
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

/// In the kernel it outlives the agent.
impl Assignment for Maps {
    fn incarnation(&self) -> Outcome<u64> {
        Ok(self.assignment()?.incarnation)
    }

    fn applied_epoch(&self) -> Outcome<u64> {
        Ok(self.assignment()?.applied_epoch)
    }

    fn set_lease_limit(&mut self, lease_ms: u32) -> Outcome<()> {
        Ok(Self::set_lease_limit(self, lease_ms)?)
    }

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        Ok(Self::set_applied_epoch(self, epoch)?)
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

    fn set_lease_limit(&mut self, _lease_ms: u32) -> Outcome<()> {
        // It has none, whatever the limit.
        Ok(())
    }

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        self.lock().set_applied_epoch(epoch);
        Ok(())
    }
}
