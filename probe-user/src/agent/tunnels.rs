//! The tunnel counters' place in the agent.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{info, warn};

use super::in_words;
use super::reflector::Reflector;
use super::run::Agent;
use crate::interfaces::Interface;
use crate::kernel::{Counted, KernelError, Mode, NotCounted, Peer, Tunnels};
use crate::tunnels::{Ages, PeerNames, TunnelReport};

/// Tunnels unseen for longer have no series any more.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Tunnels that have series at most; of more, those that were in use last.
const MOST_SERIES: usize = 1024;

/// What the agent knows of its tunnels, for whoever only looks.
pub(super) struct TunnelStatus {
    counters: Counters,
    pub(super) names: PeerNames,
    /// The devices on which tunnels shall be counted, and whether they are.
    pub(super) counted: Vec<Result<Counted, NotCounted>>,
}

/// Where the counters are pinned, for whoever reads them; none: nothing is counted.
#[derive(Clone)]
pub(super) struct Counters(Option<PathBuf>);

impl TunnelStatus {
    /// Of counters pinned in `directory`; `None`: tunnels are not counted.
    pub(super) fn new(directory: Option<&Path>, names: PeerNames) -> Self {
        Self {
            counters: Counters(directory.map(Path::to_owned)),
            names,
            counted: Vec::new(),
        }
    }

    /// For reading where it may take its time: there can be thousands of peers.
    pub(super) fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// All that is known but the tunnels themselves.
    pub(super) fn outline(&self) -> TunnelReport {
        let not_counted = self.counted.iter().filter_map(|it| it.as_ref().err());
        TunnelReport {
            enabled: self.counters.0.is_some(),
            not_counted: not_counted.map(ToString::to_string).collect(),
            ..TunnelReport::default()
        }
    }

    /// The tunnels that have series.
    pub(super) fn recent(&self) -> Result<Vec<Peer>, KernelError> {
        let age = |peer: &Peer| Ages::from(peer).newest();
        let mut peers = self.counters.read(|_| true)?;
        peers.retain(|peer| age(peer) <= FORGOTTEN);
        peers.sort_by_key(age);
        peers.truncate(MOST_SERIES);
        Ok(peers)
    }
}

impl Counters {
    /// Every tunnel that is remembered to an address that is wanted.
    pub(super) fn read(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<Vec<Peer>, KernelError> {
        match &self.0 {
            Some(directory) => Tunnels::open(directory)?.peers_where(wanted),
            None => Ok(Vec::new()),
        }
    }
}

impl Agent {
    /// Counts tunnels where they shall be counted now. Failing costs nothing but the counts.
    pub(super) fn count_tunnels(&mut self, interfaces: &[Interface]) {
        let Reflector::Kernel(kernel) = &mut self.reflector else {
            return;
        };
        let settings = &self.settings.tunnels;
        if !settings.enabled {
            if let Err(error) = kernel.count_no_tunnels() {
                warn!(error = in_words(&error), "cannot stop counting tunnels");
            }
            return;
        }
        let (mut counted, mut devices) = (Vec::new(), Vec::new());
        let management = self.interface.iter().map(|it| &it.name);
        let names: Vec<_> = match settings.interfaces.as_slice() {
            [] => management.collect(),
            names => names.iter().collect(),
        };
        for name in names {
            match interfaces.iter().find(|it| it.name == *name) {
                Some(device) => devices.push(device.clone()),
                None => counted.push(Err(NotCounted {
                    device: name.clone(),
                    reason: "there is no such interface".to_owned(),
                })),
            }
        }
        let attachments = self.status.lock().attachments.clone();
        let mut native = attachments.iter().filter(|it| it.mode == Mode::Native);
        let native = native.next().map(|it| it.interface_index);
        match kernel.count_tunnels(&devices, native, settings.config(), settings.hook) {
            Ok(here) => counted.extend(here),
            Err(error) => counted.extend(devices.into_iter().map(|device| {
                Err(NotCounted {
                    device: device.name,
                    reason: in_words(&error),
                })
            })),
        }
        self.note_counted(counted);
    }

    fn note_counted(&self, counted: Vec<Result<Counted, NotCounted>>) {
        let tunnels = &mut self.status.lock().tunnels;
        for device in counted.iter().filter(|it| !tunnels.counted.contains(it)) {
            match device {
                Ok(it) => {
                    let (received, sent) = (it.received, it.sent);
                    info!(device = it.device, %received, %sent, "counting tunnels");
                }
                Err(not_counted) => warn!("{not_counted}"),
            }
        }
        tunnels.counted = counted;
    }
}
