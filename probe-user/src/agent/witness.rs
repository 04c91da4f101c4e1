//! The node as a witness of others, as part of the agent.

use std::time::Instant;

use anyhow::{Context, Result};
use probe_ebpf::wire::NodeId;
use tracing::{info, warn};

use super::in_words;
use super::reflector::Reflector;
use super::settings::Settings;
use crate::kernel::WitnessMemory;
use crate::witness::{self, DutyFile, Handle, Memory, Running, Witness};

/// Starts the witness, where a controller may tell it its duty, or an earlier agent has been told one,
/// with which it goes on. Without kernel programs it answers questions only: nothing there outlives the
/// agent, so that it could not keep its promises.
pub(super) fn start(
    settings: &Settings,
    reflector: &Reflector,
) -> Result<Option<(Handle, Running)>> {
    let file = DutyFile::beside(&settings.egress.state_file);
    if settings.control.security()?.is_none() && !file.path().exists() {
        return Ok(None);
    }
    let own = NodeId::of(&settings.node);
    let memory: Option<Box<dyn Memory>> = match reflector {
        Reflector::Kernel(kernel) => Some(Box::new(WitnessMemory::open(kernel.directory(), own)?)),
        Reflector::UserSpace(_) => None,
    };
    let seed = getrandom::u64().context("no random numbers for the witness's probes")?;
    let mut witness = Witness::new(Instant::now(), own, memory, seed);
    if witness.instance().is_some() {
        go_on(&mut witness, &file);
    }
    Ok(Some(witness::start(witness, file)?))
}

/// Goes on with what an earlier agent was told.
fn go_on(witness: &mut Witness, file: &DutyFile) {
    let duty = match file.read() {
        Ok(Some(duty)) => duty,
        Ok(None) => return,
        Err(error) => {
            warn!(
                error = in_words(&error),
                "going on without a witness's duty"
            );
            return;
        }
    };
    let (version, nodes) = (duty.version, duty.watched.len());
    match witness.take_on(Instant::now(), &duty) {
        Ok(()) => info!(version, nodes, "going on as a witness"),
        // Floors that are lost make another witness, which nobody has told anything yet.
        Err(error) => warn!(
            error = in_words(&error),
            "going on without the recorded duty"
        ),
    }
}
