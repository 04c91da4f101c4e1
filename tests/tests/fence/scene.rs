//! One node with two egress IPs, which its agent has left behind in the kernel, and the network
//! that sees what leaves.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use probe_ebpf::fence::FenceOutcome;
use probe_ebpf::maps::Guard;
use probe_user::interfaces::Interface;
use probe_user::kernel::{
    Fence, Fenced, Kernel, LoadOptions, Maps, NotFenced, TcSetting, version_directory,
};
use pulsepath_tests::{Cluster, Netns, Node, eventually, run};

use crate::pings::pings;

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// An egress IP of the node's own.
pub(crate) const OWN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);
/// An egress IP that belongs elsewhere, but that the node still has.
pub(crate) const STALE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 101);
/// The network's own address.
pub(crate) const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// ARPHRD_ETHER of `linux/if_arp.h`.
const ETHERNET: u16 = 1;

/// The node and the network around it.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
}

impl Scene {
    /// A node whose agent ran and was killed, with both egress IPs, both guarded on `eth0`, and no
    /// lease yet.
    pub(crate) fn new(purpose: &str, lease_limit: Duration) -> Self {
        let scene = Self::unfenced(purpose);
        let mut fence = scene.fence();
        fence.guard(OWN.into(), Guard::Own).unwrap();
        fence.guard(STALE.into(), Guard::Shut).unwrap();
        let limit = u32::try_from(lease_limit.as_millis()).unwrap();
        scene.maps().set_lease_limit(limit).unwrap();
        let mut kernel = scene.kernel();
        scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
        scene
    }

    /// The same without guards and fence.
    pub(crate) fn unfenced(purpose: &str) -> Self {
        let cluster = Cluster::new(&format!("fence-{purpose}"), 1).unwrap();
        let node = cluster.node(1);
        let mut agent = node.spawn_agent(&node.agent_config("")).unwrap();
        eventually(SOON, || {
            let ready = node.agent_http("/ready");
            ready.is_ok_and(|response| response.status == 200)
        });
        agent.kill().unwrap();
        let addresses = format!("address add {OWN}/32 dev eth0\naddress add {STALE}/32 dev eth0\n");
        node.netns().ip_batch(&addresses).unwrap();
        Self { cluster }
    }

    pub(crate) fn node(&self) -> &Node {
        self.cluster.node(1)
    }

    pub(crate) fn netns(&self) -> &Netns {
        self.node().netns()
    }

    /// The network.
    pub(crate) fn hub(&self) -> &Netns {
        self.cluster.hub()
    }

    /// Where the node's pins are.
    pub(crate) fn pins(&self) -> PathBuf {
        version_directory(self.node().pin_dir())
    }

    /// What an agent that starts now takes over.
    pub(crate) fn kernel(&self) -> Kernel {
        Kernel::open(self.node().pin_dir(), LoadOptions::default()).unwrap()
    }

    pub(crate) fn maps(&self) -> Maps {
        Maps::open(&self.pins()).unwrap()
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence::open(&self.pins()).unwrap()
    }

    /// Puts the fence on a device of the node that has Ethernet headers.
    pub(crate) fn put(
        &self,
        kernel: &mut Kernel,
        device: &str,
        setting: TcSetting,
    ) -> Result<Fenced, NotFenced> {
        self.put_on(kernel, device, ETHERNET, setting)
    }

    /// Puts the fence on a device of the node with this kind of header.
    pub(crate) fn put_on(
        &self,
        kernel: &mut Kernel,
        device: &str,
        link_type: u16,
        setting: TcSetting,
    ) -> Result<Fenced, NotFenced> {
        let interface = Interface {
            index: self.index(device),
            name: device.to_owned(),
            link_type,
            ..Interface::default()
        };
        let fenced = self.netns().enter(|| kernel.fence(&[interface], setting));
        fenced.unwrap().unwrap().remove(0)
    }

    /// What the fence says of itself inside the node.
    pub(crate) fn status(&self) -> Vec<Result<Fenced, NotFenced>> {
        self.netns()
            .enter(|| self.fence().status())
            .unwrap()
            .unwrap()
    }

    pub(crate) fn index(&self, device: &str) -> u32 {
        let index = || nix::net::if_::if_nametoindex(device).unwrap();
        self.netns().enter(index).unwrap()
    }

    /// Packets that the fence counted under `outcome`.
    pub(crate) fn counted(&self, outcome: FenceOutcome) -> u64 {
        let counters = self.fence().counters().unwrap();
        let counter = counters.iter().find(|it| it.outcome == outcome);
        counter.unwrap().packets
    }

    /// Whether the network gets an answer from `address`, asking for its MAC first.
    pub(crate) fn answers(&self, address: Ipv4Addr) -> bool {
        self.forget_neighbours();
        pings(self.hub(), &address.to_string())
    }

    /// Whether the network is told a MAC for `address`.
    pub(crate) fn is_resolved(&self, address: Ipv4Addr) -> bool {
        self.answers(address);
        let neighbours = self
            .hub()
            .ip(&format!("neighbour show to {address}"))
            .unwrap();
        neighbours.contains("lladdr")
    }

    fn forget_neighbours(&self) {
        self.hub().ip("neighbour flush all").unwrap();
    }

    /// A subcommand of the agent, run in the node.
    pub(crate) fn agent(&self, arguments: &[&str]) -> String {
        let program = pulsepath_tests::bin_dir().unwrap().join("pulsepath-agent");
        let mut command: Command = self.netns().command(program);
        command
            .args(arguments)
            .arg("--pin-dir")
            .arg(self.node().pin_dir());
        run(&mut command).unwrap()
    }
}
