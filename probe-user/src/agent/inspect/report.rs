//! What the maps say, with stable names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use probe_ebpf::maps::{AgentBeat, AgentState, LocalChecks, ProbeConfig, Switch};
use probe_ebpf::wire::NodeId;
use serde::Serialize;

use super::lease::{FenceReport, Lease, ago};
use super::witness::Witness;
use crate::agent::config::unmapped;
use crate::agent::settings::host_name;
use crate::egress::Found;
use crate::interfaces::Interface;
use crate::kernel::{
    AttachSetting, Attachment, Fence, KernelError, LinkKind, Maps, Mode, PinnedLink, choices,
};

/// Everything that the maps say.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) directory: String,
    pub(super) node: Node,
    pub(super) agent: Agent,
    pub(super) attachments: Vec<Attachment>,
    pub(super) keys: Vec<u16>,
    pub(super) counters: Vec<CounterReport>,
    pub(super) probers: Vec<Prober>,
    pub(super) egress_ips: BTreeMap<IpAddr, Found>,
    pub(super) lease: Lease,
    pub(super) fence: FenceReport,
    /// The node as a witness of others.
    pub(super) witness: Option<Witness>,
}

/// Who the node is, and what it answers.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    /// Known only where it is the host's name: the maps hold its hash.
    pub(super) name: Option<String>,
    pub(super) id: String,
    pub(super) incarnation: String,
    pub(super) applied_epoch: u64,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) probe_port: u16,
    pub(super) plain_stamp: bool,
    pub(super) sbfd_port: Option<u16>,
    pub(super) sources: Vec<String>,
}

/// The agent's sign of life.
#[derive(Debug, Serialize)]
pub(super) struct Agent {
    /// `absent`, `running`, `draining`.
    pub(super) state: &'static str,
    /// Whether its last beat still counts.
    pub(super) up: bool,
    pub(super) beat_age_ms: Option<u64>,
    /// How much longer the last beat counts; negative once it does not any more.
    pub(super) deadline_in_ms: i64,
    /// `none`, `passing`, `failing`.
    pub(super) checks: &'static str,
}

/// A counter.
#[derive(Debug, Serialize)]
pub(super) struct CounterReport {
    pub(super) outcome: &'static str,
    pub(super) packets: u64,
}

/// Who has sent authenticated probes.
#[derive(Debug, Serialize)]
pub(super) struct Prober {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) probes: u64,
    pub(super) last_seen_ms: u64,
    /// Since its last RENEW or VOTE that was honoured.
    pub(super) honoured_ms: Option<u64>,
}

impl Report {
    /// Reads the maps. `now` is the boot clock, ns.
    pub(super) fn new(
        directory: &Path,
        maps: &Maps,
        fence: &Fence,
        links: &[PinnedLink],
        interfaces: &[Interface],
        now: u64,
    ) -> Result<Self, KernelError> {
        let assignment = maps.assignment()?;
        let mut node = Node::new(&maps.config()?);
        node.incarnation = hex(assignment.incarnation);
        node.applied_epoch = assignment.applied_epoch;
        let mut counters: Vec<_> = maps
            .counters()?
            .into_iter()
            .map(|it| CounterReport {
                outcome: it.outcome.label(),
                packets: it.packets,
            })
            .collect();
        counters.sort_by_key(|counter| std::cmp::Reverse(counter.packets));
        let mut probers: Vec<_> = maps
            .probers()?
            .into_iter()
            .map(|(key, seen)| Prober {
                address: unmapped(key.address),
                port: key.port,
                probes: seen.probes,
                last_seen_ms: now.saturating_sub(seen.last_ns) / 1_000_000,
                honoured_ms: ago(seen.honoured_ns, now),
            })
            .collect();
        probers.sort_by_key(|prober| prober.last_seen_ms);
        Ok(Self {
            directory: directory.display().to_string(),
            node,
            agent: Agent::new(&maps.beat()?, now),
            attachments: links
                .iter()
                .filter_map(|link| attachment(link, interfaces))
                .collect(),
            keys: maps.keys()?.iter().filter_map(|key| key.id()).collect(),
            counters,
            probers,
            egress_ips: BTreeMap::new(),
            lease: Lease::new(maps, now)?,
            fence: FenceReport::new(fence)?,
            witness: None,
        })
    }
}

impl Node {
    fn new(config: &ProbeConfig) -> Self {
        let name = Some(host_name()).filter(|name| NodeId::of(name).0 == config.node_id);
        let addresses = config.addresses.iter().take(config.address_count as usize);
        let sources = config.sources.iter().take(config.source_count as usize);
        Self {
            name,
            id: hex(config.node_id),
            incarnation: String::new(),
            applied_epoch: 0,
            addresses: addresses.map(|prefix| unmapped(prefix.address())).collect(),
            probe_port: config.probe_port,
            plain_stamp: config.plain_stamp == Switch::On,
            sbfd_port: Some(config.sbfd_port).filter(|_| config.sbfd == Switch::On),
            sources: sources
                .map(|prefix| source(prefix.address(), prefix.length()))
                .collect(),
        }
    }
}

impl Agent {
    fn new(beat: &AgentBeat, now: u64) -> Self {
        Self {
            state: match beat.state {
                AgentState::Absent => "absent",
                AgentState::Running => "running",
                AgentState::Draining => "draining",
            },
            up: beat.is_up(now),
            beat_age_ms: (beat.last_ns != 0).then(|| now.saturating_sub(beat.last_ns) / 1_000_000),
            deadline_in_ms: beat.deadline_ns.wrapping_sub(now).cast_signed() / 1_000_000,
            checks: match beat.checks {
                LocalChecks::None => "none",
                LocalChecks::Passing => "passing",
                LocalChecks::Failing => "failing",
            },
        }
    }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn source(address: [u8; 16], length: u32) -> String {
    let address = unmapped(address);
    let skipped = if address.is_ipv4() { 96 } else { 0 };
    format!("{address}/{}", length.saturating_sub(skipped))
}

/// A link as an attachment. The maps do not say why the agent chose its mode; it is told from what
/// the interface is.
fn attachment(link: &PinnedLink, interfaces: &[Interface]) -> Option<Attachment> {
    let index = link.interface_index.filter(|_| link.kind.is_reflector())?;
    let interface = interfaces.iter().find(|interface| interface.index == index);
    let mode = match link.kind {
        LinkKind::Xdp
            if interface
                .and_then(|it| it.xdp)
                .is_some_and(|xdp| xdp.native) =>
        {
            Mode::Native
        }
        LinkKind::Xdp => Mode::Generic,
        _ => Mode::Tcx,
    };
    Some(Attachment {
        interface: interface.map_or_else(|| format!("index {index}"), |it| it.name.clone()),
        interface_index: index,
        mode,
        reason: interface.map_or_else(
            || "the interface is in another network namespace".to_owned(),
            |interface| reason(interface, mode),
        ),
        link_id: link.id,
    })
}

fn reason(interface: &Interface, mode: Mode) -> String {
    let choice = choices(AttachSetting::Auto, interface)
        .into_iter()
        .find(|it| it.mode == mode);
    match (choice, interface.xdp) {
        (Some(choice), Some(xdp)) if mode == Mode::Tcx && !interface.loopback => {
            format!("{} (it holds program {})", choice.reason, xdp.program_id)
        }
        (Some(choice), _) => choice.reason,
        (None, _) => format!("reflector.attach={}", mode.label()),
    }
}
