//! The node's egress IPs as part of the agent.

use std::error::Error;

use anyhow::Result;

use super::reflector::Reflector;
use super::settings::Settings;
use super::user_space::SharedNode;
use crate::egress::{Assignment, Egress, Handle, Options};
use crate::kernel::Maps;

/// Starts the task that holds the node's egress IPs, where a controller may tell the agent of some,
/// or an earlier agent has left some, with which it goes on. Elsewhere the agent needs no right to
/// change addresses.
pub(super) fn start(settings: &Settings, reflector: &Reflector) -> Result<Option<Handle>> {
    let may_be_told = settings.control.security()?.is_some();
    if !may_be_told && !settings.egress.state_file.exists() {
        return Ok(None);
    }
    let options = Options {
        interface: settings.egress.interface.clone(),
        set_sysctls: settings.egress.set_sysctls,
        state_file: settings.egress.state_file.clone(),
    };
    let assignment: Box<dyn Assignment> = match reflector {
        Reflector::Kernel(kernel) => Box::new(Maps::open(kernel.directory())?),
        Reflector::UserSpace(reflector) => Box::new(reflector.node().clone()),
    };
    Ok(Some(Egress::start(options, assignment)?))
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// In the kernel it outlives the agent.
impl Assignment for Maps {
    fn incarnation(&self) -> Outcome<u64> {
        Ok(self.assignment()?.incarnation)
    }

    fn applied_epoch(&self) -> Outcome<u64> {
        Ok(self.assignment()?.applied_epoch)
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

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        self.lock().set_applied_epoch(epoch);
        Ok(())
    }
}
