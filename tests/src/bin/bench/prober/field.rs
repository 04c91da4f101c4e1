//! Two namespaces, and a reflector that answers for a whole prefix.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use nix::net::if_::if_nametoindex;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use probe_ebpf::maps::{
    AgentBeat, AgentState, KEY_SLOTS, LocalChecks, Prefix, ProbeConfig, ProbeKey,
};
use probe_ebpf::wire::NodeId;
use probe_user::interfaces::Interface;
use probe_user::kernel::{AttachSetting, Kernel, LoadOptions};
use probe_user::keys::{ClusterKeys, NodeKeys};
use pulsepath_tests::Netns;
use pulsepath_tests::pins::PinDir;

/// The nodes' addresses: 10.64.0.0/12.
const PREFIX: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
const PREFIX_LENGTH: u32 = 12;
/// As many nodes as there are addresses.
pub(super) const NODES_MAX: u32 = 1 << (32 - PREFIX_LENGTH);

const NODE: &str = "everynode";
const REFLECTOR_INTERFACE: &str = "reflect0";

/// The address of node `index`.
pub(super) fn address(index: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(PREFIX) + index).into()
}

/// Where the prober is, and what answers it.
pub(super) struct Field {
    pub(super) prober: Netns,
    keys: NodeKeys,
    // These three keep the reflector in place.
    _kernel: Kernel,
    _pins: PinDir,
    _reflector: Netns,
}

impl Field {
    pub(super) fn new() -> Result<Self> {
        let (prober, reflector) = (Netns::new("bench-prober")?, Netns::new("bench-nodes")?);
        prober.ip_batch(&format!(
            "link add probe0 type veth peer name {REFLECTOR_INTERFACE} address 02:00:00:00:00:02 netns {}\n\
             address add 10.63.0.1/24 dev probe0\n\
             link set probe0 up\n\
             neighbour add 10.63.0.2 lladdr 02:00:00:00:00:02 dev probe0\n",
            reflector.name()
        ))?;
        reflector.ip(&format!("link set {REFLECTOR_INTERFACE} up"))?;
        // One neighbour for all nodes: a table of thousands would be thrown out again.
        prober.ip(&format!("route add {PREFIX}/{PREFIX_LENGTH} via 10.63.0.2"))?;

        let keys = ClusterKeys::generate(1)?.node_keys(NODE);
        let pins = PinDir::new("bench-prober")?;
        let mut kernel = Kernel::open(pins.path(), LoadOptions::default())?;
        configure(&mut kernel, &keys)?;
        reflector.enter(|| attach(&mut kernel))??;
        Ok(Self {
            prober,
            keys,
            _kernel: kernel,
            _pins: pins,
            _reflector: reflector,
        })
    }

    pub(super) fn node(&self) -> NodeId {
        NodeId::of(NODE)
    }

    pub(super) fn keys(&self) -> &NodeKeys {
        &self.keys
    }
}

fn configure(kernel: &mut Kernel, keys: &NodeKeys) -> Result<()> {
    let mut config = ProbeConfig::new(NodeId::of(NODE).0);
    config.addresses[0] = Prefix::new(PREFIX.to_ipv6_mapped().octets(), 96 + PREFIX_LENGTH);
    config.address_count = 1;
    let mut slots = [ProbeKey::EMPTY; KEY_SLOTS];
    slots[0] = ProbeKey::new(keys.current().id, keys.current().bytes());
    let maps = kernel.maps_mut();
    maps.set_keys(&slots)?;
    maps.set_beat(&AgentBeat {
        last_ns: 1,
        deadline_ns: u64::MAX,
        wall_offset_ns: 0,
        state: AgentState::Running,
        checks: LocalChecks::None,
    })?;
    maps.set_config(&config)?;
    Ok(())
}

fn attach(kernel: &mut Kernel) -> Result<()> {
    let interface = Interface {
        index: if_nametoindex(REFLECTOR_INTERFACE)?,
        name: REFLECTOR_INTERFACE.to_owned(),
        kind: Some("veth".to_owned()),
        up: true,
        ..Interface::default()
    };
    kernel.attach(&interface, AttachSetting::Auto)?;
    Ok(())
}

/// Keeps the present thread on one CPU: the last one, as the first has more interrupts to serve.
pub(super) fn pin_to_one_cpu() -> Result<()> {
    let cpus = std::thread::available_parallelism().context("count the CPUs")?;
    let mut last = CpuSet::new();
    last.set(cpus.get() - 1)?;
    sched_setaffinity(Pid::from_raw(0), &last).context("pin the prober's thread")
}
