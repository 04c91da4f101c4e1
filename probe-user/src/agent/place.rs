//! Putting the reflector where it belongs, and following the management interface.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use probe_ebpf::maps::MAX_ADDRESSES;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::reflector::{Reflector, ReflectorError, may_fall_back};
use super::run::Agent;
use super::tunnels::TunnelStatus;
use super::{config, in_words};
use crate::interfaces::{Interface, NotFound, Watch};
use crate::kernel::{Attachment, KernelError};

/// How often the interfaces are looked at although no change was heard of.
const LOOK: Duration = Duration::from_secs(10);
/// The same while something is missing.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long the kernel may take to list the interfaces.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the reflector waits for, or `None` if it is in place.
type Missing = Option<String>;

impl Agent {
    /// Looks at the interfaces, and puts the reflector where it belongs now. Returns when to look
    /// again.
    pub(super) async fn look(&mut self) -> Result<Instant> {
        if !self.reflector.is_in_place() {
            bail!(
                "the pins below {} have been removed while this agent ran (`detach --force`?)",
                self.settings.pin_dir.display()
            );
        }
        let interfaces = match timeout(PATIENCE, self.watch.interfaces()).await {
            Ok(Ok(interfaces)) => interfaces,
            Ok(Err(error)) => return self.watch_anew(&in_words(&error)),
            Err(_) => return self.watch_anew("no answer"),
        };
        let missing = match self.place(&interfaces) {
            Ok(missing) => missing,
            // Before it was ever in place, an error is the operator's to see at once. Later the
            // agent goes on and tries again.
            Err(error) if !self.was_in_place => return Err(error),
            Err(error) => Some(in_words(error.as_ref())),
        };
        self.count_tunnels(&interfaces);
        self.was_in_place |= missing.is_none();
        let wait = if missing.is_none() { LOOK } else { LOOK_AGAIN };
        let missing = missing.or(self.missing_keys()?);
        self.set_ready(missing.map_or(Ok(()), Err));
        Ok(Instant::now() + wait)
    }

    fn missing_keys(&self) -> Result<Missing> {
        let waits = self.keys.is_none() && !self.reflector.has_keys()?;
        Ok(waits.then(|| "waiting for a controller to bring the node's probe key".to_owned()))
    }

    /// A netlink socket can fail for good, for instance by an overrun.
    fn watch_anew(&mut self, reason: &str) -> Result<Instant> {
        warn!(
            reason,
            "cannot list the interfaces: opening another netlink socket"
        );
        self.watch = Watch::new()?;
        Ok(Instant::now() + LOOK_AGAIN)
    }

    fn place(&mut self, interfaces: &[Interface]) -> Result<Missing> {
        let previous = self.interface.as_ref().map(|interface| interface.index);
        let management = match self.management.choose(interfaces, previous) {
            Ok(interface) => interface.clone(),
            Err(missing) => {
                self.note_missing(&missing);
                return Ok(Some(missing.to_string()));
            }
        };
        self.note_interface(&management);
        let addresses = self.management.addresses_on(&management);
        if addresses.is_empty() {
            return Ok(Some(format!("{} has no address", management.name)));
        }
        self.note_addresses(&addresses);
        let loopback = interfaces.iter().find(|interface| interface.loopback);
        let config = config::probe_config(&self.settings, &addresses);
        let setting = self.settings.reflector.attach;
        let placed = self
            .reflector
            .place(&config, &addresses, &management, loopback, setting);
        let (attachments, missing) = match placed {
            Ok(placed) => placed,
            Err(ReflectorError::Kernel(error))
                if !self.was_in_place && may_fall_back(&self.settings, &error) =>
            {
                self.fall_back(&error)?;
                return self.place(interfaces);
            }
            Err(error) => match error.missing() {
                Some(missing) => return Ok(Some(missing)),
                None => return Err(error.into()),
            },
        };
        self.note_attachments(attachments);
        Ok(missing.map(|error| format!("the node cannot probe itself: {}", in_words(&error))))
    }

    /// Replaces kernel programs that cannot be attached by the reflector in user space.
    fn fall_back(&mut self, cause: &KernelError) -> Result<()> {
        if let Reflector::Kernel(kernel) = &mut self.reflector {
            // What answers elsewhere would go on with a beat that nobody renews.
            kernel.detach_others(&[])?;
        }
        let (mut reflector, kind) = Reflector::fall_back(cause)?;
        if let Some(keys) = &self.keys {
            reflector.set_keys(keys)?;
        }
        reflector.set_beat(self.beat.prepare()?)?;
        let mut status = self.status.lock();
        status.view = reflector.view()?;
        (status.fence, status.fenced) = (reflector.fence()?, Vec::new());
        status.tunnels = TunnelStatus::new(None, status.tunnels.names.clone());
        status.kind = kind;
        self.reflector = reflector;
        Ok(())
    }

    fn note_missing(&mut self, missing: &NotFound) {
        if let Some(gone) = self.interface.take() {
            warn!(interface = gone.name, "the management interface is gone");
            self.note_attachments(Vec::new());
        } else if !self
            .ready
            .borrow()
            .as_ref()
            .is_err_and(|reason| *reason == missing.to_string())
        {
            warn!(%missing, "waiting for the management interface");
        }
    }

    fn note_interface(&mut self, now: &Interface) {
        match &self.interface {
            Some(before) if before.index == now.index => {
                if before.name != now.name {
                    info!(
                        from = before.name,
                        to = now.name,
                        "the management interface was renamed"
                    );
                }
                if before.up != now.up {
                    let state = if now.up { "up" } else { "down" };
                    info!(
                        interface = now.name,
                        state, "the management interface changed"
                    );
                }
            }
            _ => info!(
                interface = now.name,
                index = now.index,
                "found the management interface"
            ),
        }
        self.interface = Some(now.clone());
    }

    fn note_addresses(&mut self, now: &[IpAddr]) {
        if self.addresses == now {
            return;
        }
        info!(addresses = ?now, "answering on these addresses");
        if let Some(surplus) = now
            .get(MAX_ADDRESSES..)
            .filter(|surplus| !surplus.is_empty())
        {
            warn!(
                ?surplus,
                "these addresses do not answer: there are too many"
            );
        }
        self.addresses = now.to_vec();
    }

    fn note_attachments(&mut self, attachments: Vec<Attachment>) {
        let mut status = self.status.lock();
        if status.attachments == attachments {
            return;
        }
        for new in attachments
            .iter()
            .filter(|new| !status.attachments.contains(new))
        {
            info!(
                interface = new.interface,
                mode = %new.mode,
                reason = new.reason,
                link = new.link_id,
                "the reflector is attached"
            );
        }
        status.attachments = attachments;
        status.changes += 1;
    }

    fn set_ready(&self, now: Result<(), String>) {
        self.ready.send_if_modified(|ready| {
            if *ready == now {
                return false;
            }
            match &now {
                Ok(()) => info!("ready"),
                Err(reason) => warn!(reason, "not ready"),
            }
            *ready = now.clone();
            true
        });
    }
}
