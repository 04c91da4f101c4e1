//! The reflector, wherever it runs: in the kernel, or in user space where the kernel is ruled out.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use probe_ebpf::maps::{AgentBeat, KEY_SLOTS, ProbeConfig, ProbeKey};
use probe_ebpf::outcome::Outcome;
use tracing::{info, warn};

use super::settings::Settings;
use super::user_space::{SharedNode, UserSpaceReflector};
use super::{config, in_words};
use crate::interfaces::Interface;
use crate::kernel::{AttachSetting, Attachment, Counter, Fence, Kernel, KernelError, Maps};
use crate::keys::NodeKeys;

/// Why the reflector is not in place.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReflectorError {
    /// The kernel side is not.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The user-space reflector's socket could not be bound.
    #[error("the user-space reflector cannot answer on {addresses:?}")]
    UserSpace {
        /// Where it should answer.
        addresses: Vec<IpAddr>,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// No random numbers.
    #[error("the user-space reflector cannot choose an incarnation")]
    Incarnation(#[source] io::Error),
}

/// The reflector.
pub(super) enum Reflector {
    /// Kernel programs.
    Kernel(Box<Kernel>),
    /// Sockets of this process.
    UserSpace(UserSpaceReflector),
}

/// Where a reflector runs, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// `kernel` or `user_space`.
    pub(super) label: &'static str,
    /// Why, in words.
    pub(super) reason: String,
}

/// A reflector's state, for reading.
pub(super) enum View {
    /// From the pinned maps.
    Kernel(Box<Maps>),
    /// From this process.
    UserSpace(SharedNode),
}

impl ReflectorError {
    /// What is not there yet, or not any more, if that is all that is wrong.
    pub(super) fn missing(&self) -> Option<String> {
        match self {
            Self::Kernel(KernelError::NoInterface { interface }) => {
                Some(format!("interface {interface} is missing"))
            }
            Self::UserSpace { addresses, source }
                if source.kind() == io::ErrorKind::AddrNotAvailable =>
            {
                Some(format!("one of the addresses {addresses:?} is missing"))
            }
            _ => None,
        }
    }
}

impl Reflector {
    /// Opens the kernel side, or says with which error it is ruled out. Only `auto` falls back:
    /// who forces a mode wants that or an error.
    pub(super) fn open(settings: &Settings) -> Result<(Self, Kind), ReflectorError> {
        match Kernel::open(&settings.pin_dir, settings.load_options()) {
            Ok(kernel) => {
                let reason = "kernel programs are loaded".to_owned();
                Ok((
                    Self::Kernel(Box::new(kernel)),
                    Kind {
                        label: "kernel",
                        reason,
                    },
                ))
            }
            Err(error) if may_fall_back(settings, &error) => Self::fall_back(&error),
            Err(error) => Err(error.into()),
        }
    }

    /// The reflector in user space, loudly.
    pub(super) fn fall_back(cause: &KernelError) -> Result<(Self, Kind), ReflectorError> {
        let reason = in_words(cause);
        warn!(
            reason,
            "NO KERNEL PROGRAM CAN BE ATTACHED: probes are answered by this process. While it is \
             down nothing answers, and the node counts as UNREACHABLE instead of UNAVAILABLE"
        );
        let reflector = UserSpaceReflector::new().map_err(ReflectorError::Incarnation)?;
        Ok((
            Self::UserSpace(reflector),
            Kind {
                label: "user_space",
                reason,
            },
        ))
    }

    /// Answers probes with these keys from now on.
    pub(super) fn set_keys(&mut self, keys: &NodeKeys) -> Result<(), KernelError> {
        match self {
            Self::Kernel(kernel) => {
                let maps = kernel.maps_mut();
                maps.set_keys(&config::probe_keys(keys, maps.keys()?))?;
            }
            Self::UserSpace(reflector) => {
                reflector.set_keys(config::probe_keys(keys, [ProbeKey::EMPTY; KEY_SLOTS]));
            }
        }
        Ok(())
    }

    /// Whether there are keys to answer probes with, perhaps from an earlier agent.
    pub(super) fn has_keys(&self) -> Result<bool, KernelError> {
        let keys = match self {
            Self::Kernel(kernel) => kernel.maps().keys()?,
            Self::UserSpace(reflector) => reflector.node().lock().keys(),
        };
        Ok(keys.iter().any(|key| key.id().is_some()))
    }

    pub(super) fn set_beat(&mut self, beat: AgentBeat) -> Result<(), KernelError> {
        match self {
            Self::Kernel(kernel) => kernel.maps_mut().set_beat(&beat)?,
            Self::UserSpace(reflector) => reflector.set_beat(beat),
        }
        Ok(())
    }

    /// The agent's sign of life as an earlier agent left it.
    pub(super) fn last_beat(&self) -> Result<AgentBeat, KernelError> {
        match self {
            Self::Kernel(kernel) => kernel.maps().beat(),
            Self::UserSpace(reflector) => Ok(reflector.node().lock().last_beat()),
        }
    }

    /// Puts this build's programs into links that are in force already.
    pub(super) fn replace_programs(&mut self) -> Result<(), KernelError> {
        if let Self::Kernel(kernel) = self {
            let links = kernel.replace_programs()?;
            if links > 0 {
                info!(
                    links,
                    "replaced the programs of an earlier agent, without a gap"
                );
            }
        }
        Ok(())
    }

    /// Answers on `addresses`. In the kernel: on the management interface and on the loopback
    /// interface, over which the node reaches its own addresses. The second result is why the
    /// latter is missing, if it is.
    pub(super) fn place(
        &mut self,
        config: &ProbeConfig,
        addresses: &[IpAddr],
        management: &Interface,
        loopback: Option<&Interface>,
        setting: AttachSetting,
    ) -> Result<(Vec<Attachment>, Option<KernelError>), ReflectorError> {
        match self {
            Self::Kernel(kernel) => {
                kernel.maps_mut().set_config(config)?;
                Ok(place_in_kernel(kernel, management, loopback, setting)?)
            }
            Self::UserSpace(reflector) => {
                reflector
                    .serve(config, addresses)
                    .map_err(|source| ReflectorError::UserSpace {
                        addresses: addresses.to_vec(),
                        source,
                    })?;
                Ok((Vec::new(), None))
            }
        }
    }

    /// A view on its state for whoever only reads.
    pub(super) fn view(&self) -> Result<View, KernelError> {
        match self {
            Self::Kernel(kernel) => Ok(View::Kernel(Box::new(Maps::open(kernel.directory())?))),
            Self::UserSpace(reflector) => Ok(View::UserSpace(reflector.node().clone())),
        }
    }

    /// What the fence has counted, for whoever only reads; `None`: there is none.
    pub(super) fn fence(&self) -> Result<Option<Fence>, KernelError> {
        match self {
            Self::Kernel(kernel) => Fence::open(kernel.directory()).map(Some),
            Self::UserSpace(_) => Ok(None),
        }
    }

    /// Where maps are pinned; `None`: there are none.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Kernel(kernel) => Some(kernel.directory()),
            Self::UserSpace(_) => None,
        }
    }

    /// Whether it is still where it was put.
    pub(super) fn is_in_place(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.is_in_place(),
            Self::UserSpace(_) => true,
        }
    }
}

/// Whether an error of the kernel side leads to the user-space reflector.
pub(super) fn may_fall_back(settings: &Settings, error: &KernelError) -> bool {
    settings.reflector.attach == AttachSetting::Auto && error.rules_out_kernel()
}

fn place_in_kernel(
    kernel: &mut Kernel,
    management: &Interface,
    loopback: Option<&Interface>,
    setting: AttachSetting,
) -> Result<(Vec<Attachment>, Option<KernelError>), KernelError> {
    let mut attachments = vec![kernel.attach(management, setting)?];
    let mut missing = None;
    if let Some(loopback) = loopback.filter(|loopback| loopback.index != management.index) {
        match kernel.attach(loopback, setting) {
            Ok(attachment) => attachments.push(attachment),
            Err(error) => missing = Some(error),
        }
    }
    let wanted: Vec<_> = attachments.iter().map(|it| it.interface_index).collect();
    for link in kernel.detach_others(&wanted)? {
        info!(link = %link.path.display(), "removed a link that is not needed any more");
    }
    Ok((attachments, missing))
}

impl View {
    pub(super) fn counters(&self) -> Result<Vec<Counter>, KernelError> {
        match self {
            Self::Kernel(maps) => maps.counters(),
            Self::UserSpace(node) => {
                let node = node.lock();
                let counter = |&outcome: &Outcome| Counter {
                    outcome,
                    packets: node.packets(outcome),
                };
                Ok(Outcome::ALL.iter().map(counter).collect())
            }
        }
    }

    pub(super) fn beat(&self) -> Result<AgentBeat, KernelError> {
        match self {
            Self::Kernel(maps) => maps.beat(),
            Self::UserSpace(node) => Ok(node.lock().last_beat()),
        }
    }

    pub(super) fn prober_count(&self) -> Result<usize, KernelError> {
        match self {
            Self::Kernel(maps) => maps.probers().map(|probers| probers.len()),
            Self::UserSpace(node) => Ok(node.lock().prober_count()),
        }
    }
}
