//! The fence's place in the agent: the task that applies egress IPs says what is guarded, and where;
//! the main loop, which alone holds the programs, puts them there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use probe_ebpf::maps::Guard;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

use super::in_words;
use super::reflector::Reflector;
use super::run::Agent;
use crate::egress::{Fencing, NotFenced, Outcome};
use crate::kernel::{self, Fence, Fenced, KernelError};

/// The main loop beats, and waits for nobody for longer.
const PATIENCE: Duration = Duration::from_millis(100);

/// Devices that need a fence.
pub(super) struct FenceRequest {
    devices: BTreeSet<u32>,
    /// Why some of them have none.
    done: oneshot::Sender<Result<Vec<String>, String>>,
}

/// The kernel's fence.
pub(super) struct KernelFence {
    guards: Fence,
    requests: mpsc::Sender<FenceRequest>,
}

impl KernelFence {
    /// By the maps pinned in `directory`. Requests come out of the receiver.
    pub(super) fn open(
        directory: &Path,
    ) -> Result<(Self, mpsc::Receiver<FenceRequest>), KernelError> {
        let guards = Fence::open(directory)?;
        let (requests, receiver) = mpsc::channel(1);
        Ok((Self { guards, requests }, receiver))
    }
}

impl Fencing for KernelFence {
    fn guard(&mut self, guards: &BTreeMap<IpAddr, Guard>) -> Outcome<()> {
        let present = self.guards.entries()?;
        // What is to be shut is shut whatever becomes of the rest, and there is room for the rest.
        let known = |it: &&IpAddr| present.contains_key(*it) && guards[*it] == Guard::Shut;
        for address in guards.keys().filter(known) {
            self.guards.guard(*address, Guard::Shut)?;
        }
        for address in present.keys().filter(|it| !guards.contains_key(it)) {
            self.guards.remove(*address)?;
        }
        for (&address, &guard) in guards {
            self.guards.guard(address, guard)?;
        }
        Ok(())
    }

    fn fence(&mut self, devices: BTreeSet<u32>) -> NotFenced {
        let requests = self.requests.clone();
        Box::pin(async move {
            let (done, outcome) = oneshot::channel();
            let stopping = || "the agent is stopping".to_owned();
            let request = FenceRequest { devices, done };
            requests.send(request).await.map_err(|_| stopping())?;
            Ok(outcome.await.map_err(|_| stopping())??)
        })
    }
}

impl Agent {
    /// Puts the fence where it is needed.
    pub(super) async fn fence(&mut self, request: FenceRequest) {
        let FenceRequest { devices, done } = request;
        let outcome = self.try_fence(&devices).await;
        // Whoever asked ends with the agent.
        let _ = done.send(outcome.map_err(|error| in_words(error.as_ref())));
    }

    async fn try_fence(&mut self, devices: &BTreeSet<u32>) -> Result<Vec<String>> {
        let interfaces = timeout(PATIENCE, self.watch.interfaces())
            .await
            .context("no answer about the interfaces")??;
        let Reflector::Kernel(kernel) = &mut self.reflector else {
            return Ok(Vec::new());
        };
        let wanted: Vec<_> = interfaces
            .into_iter()
            .filter(|interface| devices.contains(&interface.index))
            .collect();
        let fenced = kernel.fence(&wanted, self.settings.egress.fence)?;
        let indexes: Vec<u32> = wanted.iter().map(|interface| interface.index).collect();
        match kernel.unfence_others(&indexes) {
            Ok(pins) => {
                for pin in pins {
                    info!(pin = %pin.display(), "removed a fence that is not needed any more");
                }
            }
            // A fence too many does no harm.
            Err(error) => warn!(error = in_words(&error), "cannot remove a needless fence"),
        }
        let reasons = fenced.iter().filter_map(|device| device.as_ref().err());
        let reasons = reasons.map(ToString::to_string).collect();
        self.note_fenced(fenced);
        Ok(reasons)
    }

    fn note_fenced(&self, fenced: Vec<Result<Fenced, kernel::NotFenced>>) {
        let mut status = self.status.lock();
        for device in fenced.iter().filter(|it| !status.fenced.contains(it)) {
            match device {
                Ok(fenced) => info!(device = fenced.device, hook = %fenced.hook, "fenced"),
                Err(not_fenced) => warn!(reason = %not_fenced, "NotFenced"),
            }
        }
        status.fenced = fenced;
    }
}
