//! A gateway node between a client and an external segment.
//!
//! ```text
//!   client                 node                        outside: bridge br0
//!   eth0 10.99.0.2 ---- in0 10.99.0.1   eth0 10.78.0.1 ---- n1     10.78.0.254
//!                                       eth1           ---- n2     fd78::fe
//! ```

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use probe_user::egress::{
    AddressReport, AddressState, ApplyError, Assignment, Claim, Desired, Egress, EgressIp, Gateway,
    Handle, NoFence, Options, Pending, Status,
};
use probe_user::kernel::WitnessSet;
use pulsepath_tests::{Netns, eventually, run};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) const EGRESS_IP: &str = "10.78.0.100";
pub(crate) const CLIENTS: &str = "10.99.0.0/24";
pub(crate) const IPV6_EGRESS_IP: &str = "fd78::100";
const IPV6_CLIENTS: &str = "fd99::/64";

/// The namespaces, and the node's state.
pub(crate) struct Scene {
    pub(crate) outside: Netns,
    pub(crate) node: Netns,
    pub(crate) client: Netns,
    pub(crate) files: TempDir,
    pub(crate) kernel: SharedAssignment,
}

impl Scene {
    pub(crate) fn new(purpose: &str) -> Self {
        let netns = |part: &str| Netns::new(&format!("r-{purpose}-{part}")).unwrap();
        let (outside, node, client) = (netns("out"), netns("node"), netns("cl"));
        let batch = |netns: &Netns, lines: &str| netns.ip_batch(lines).unwrap();
        batch(
            &outside,
            &format!(
                "link add br0 type bridge forward_delay 0 mcast_snooping 0\n\
                 address add 10.78.0.254/24 dev br0\n\
                 address add fd78::fe/64 dev br0 nodad\n\
                 link set br0 up\n\
                 link add n1 type veth peer name eth0 netns {0}\n\
                 link add n2 type veth peer name eth1 netns {0}\n\
                 link set n1 master br0 up\n\
                 link set n2 master br0 up\n",
                node.name()
            ),
        );
        batch(
            &node,
            &format!(
                "address add 10.78.0.1/24 dev eth0\n\
                 address add fd78::1/64 dev eth0 nodad\n\
                 link set eth0 up\n\
                 link set eth1 up\n\
                 link add in0 type veth peer name eth0 netns {}\n\
                 address add 10.99.0.1/24 dev in0\n\
                 link set in0 up\n",
                client.name()
            ),
        );
        batch(
            &client,
            "address add 10.99.0.2/24 dev eth0\n\
             link set eth0 up\n\
             route add default via 10.99.0.1\n",
        );
        Self {
            outside,
            node,
            client,
            files: tempfile::tempdir().unwrap(),
            kernel: SharedAssignment::new(1),
        }
    }

    /// An agent's egress task on the node, in place of whatever the last one left.
    pub(crate) fn start(&self) -> Agent {
        let options = Options {
            interface: None,
            set_sysctls: true,
            state_file: self.state_file(),
        };
        Agent::start(&self.node, options, self.kernel.clone())
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.files.path().join("agent.json")
    }

    /// What the node's interface says of an address.
    pub(crate) fn address(&self, interface: &str, address: &str) -> Option<Value> {
        let text = self
            .node
            .ip(&format!("-j -d address show dev {interface}"))
            .ok()?;
        let links: Value = serde_json::from_str(&text).unwrap();
        let addresses = links[0]["addr_info"].as_array().unwrap();
        addresses.iter().find(|it| it["local"] == address).cloned()
    }

    /// A socket outside, and one of the client that is connected to it.
    pub(crate) fn flow(&self) -> (UdpSocket, UdpSocket) {
        let server = self.socket(&self.outside, "10.78.0.254:0");
        let client = self.socket(&self.client, "10.99.0.2:0");
        client.connect(server.local_addr().unwrap()).unwrap();
        (client, server)
    }

    /// Gives the client an IPv6 address, `fd99::2`, and the node's way to the outside.
    pub(crate) fn add_ipv6_client(&self) {
        let node = "address add fd99::1/64 dev in0 nodad\n";
        self.node.ip_batch(node).unwrap();
        let client = "address add fd99::2/64 dev eth0 nodad\nroute add default via fd99::1\n";
        self.client.ip_batch(client).unwrap();
        let forward = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
        run(self.node.command("sh").args(["-c", forward])).unwrap();
    }

    /// As [`Self::flow`], of that address.
    pub(crate) fn ipv6_flow(&self) -> (UdpSocket, UdpSocket) {
        let server = self.socket(&self.outside, "[fd78::fe]:0");
        let client = self.socket(&self.client, "[fd99::2]:0");
        client.connect(server.local_addr().unwrap()).unwrap();
        (client, server)
    }

    pub(crate) fn socket(&self, netns: &Netns, address: &str) -> UdpSocket {
        let socket = netns.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
        let patience = Some(Duration::from_millis(200));
        socket.set_read_timeout(patience).unwrap();
        socket
    }

    /// Makes the external interface again, as a driver's reload does.
    pub(crate) fn make_eth0(&self) {
        self.outside
            .ip_batch(&format!(
                "link add n1 type veth peer name eth0 netns {}\n\
                 link set n1 master br0 up\n",
                self.node.name()
            ))
            .unwrap();
        self.node
            .ip_batch("address add 10.78.0.1/24 dev eth0\nlink set eth0 up\n")
            .unwrap();
    }
}

/// Sends a datagram, and says where the server saw it come from.
pub(crate) fn seen_from(client: &UdpSocket, server: &UdpSocket) -> Option<SocketAddr> {
    client.send(b"ping").ok()?;
    let mut buffer = [0; 16];
    server.recv_from(&mut buffer).ok().map(|(_, from)| from)
}

/// Epoch and incarnation, in place of the kernel's map: they outlive an agent.
#[derive(Clone)]
pub(crate) struct SharedAssignment(Arc<Mutex<(u64, u64)>>);

impl SharedAssignment {
    pub(crate) fn new(incarnation: u64) -> Self {
        Self(Arc::new(Mutex::new((incarnation, 0))))
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Assignment for SharedAssignment {
    fn incarnation(&self) -> Outcome<u64> {
        Ok(self.0.lock().unwrap().0)
    }

    fn applied_epoch(&self) -> Outcome<u64> {
        Ok(self.0.lock().unwrap().1)
    }

    fn witness_version(&self) -> Outcome<u64> {
        Ok(0)
    }

    fn set_lease_limit(
        &mut self,
        _lease_ms: u32,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn set_applied_epoch(&mut self, epoch: u64) -> Outcome<()> {
        self.0.lock().unwrap().1 = epoch;
        Ok(())
    }

    fn set_witnesses(&mut self, _set: WitnessSet) -> Pending<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// An agent's egress task on a thread inside the node. Dropping it is like killing the agent:
/// nothing is tidied up.
pub(crate) struct Agent {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(node: &Netns, options: Options, kernel: SharedAssignment) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (started, handle) = std::sync::mpsc::channel();
        let path = node.path().to_owned();
        let thread = std::thread::spawn(move || {
            let netns = std::fs::File::open(path).unwrap();
            nix::sched::setns(netns, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let handle = Egress::start(options, Box::new(kernel), Box::new(NoFence)).unwrap();
                started.send(handle).unwrap();
                // Stopped by the sender's end, too.
                let _ = stopped.await;
            });
        });
        Self {
            handle: handle.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn try_apply(
        &self,
        desired: Desired,
        incarnation: u64,
    ) -> Result<Status, ApplyError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(self.handle.apply(desired, incarnation))
    }

    pub(crate) fn apply(&self, epoch: u64, addresses: Vec<EgressIp>) -> Status {
        self.try_apply(set(epoch, addresses), 0).unwrap()
    }

    pub(crate) fn status(&self) -> Status {
        self.handle.status()
    }

    pub(crate) fn state(&self, address: &str) -> Option<AddressState> {
        state(&self.status(), address)
    }

    /// Waits until the node has told its neighbours of an address.
    pub(crate) fn wait_until_announced(&self, address: &str) {
        eventually(SOON, || match self.state(address) {
            Some(AddressState::Announced) => Ok(()),
            other => Err(other),
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A set for a candidate of a gateway that has the address and the client's network.
pub(crate) fn candidate_set(epoch: u64, addresses: Vec<EgressIp>) -> Desired {
    let gateway = Gateway {
        name: "g".to_owned(),
        egress_ips: vec![format!("{EGRESS_IP}/32").parse().unwrap()],
        sources: vec![CLIENTS.parse().unwrap()],
        interface: None,
        routed: false,
    };
    Desired {
        gateways: vec![gateway],
        ..set(epoch, addresses)
    }
}

/// A set for a node that is no candidate of any gateway.
pub(crate) fn set(epoch: u64, addresses: Vec<EgressIp>) -> Desired {
    Desired {
        epoch,
        addresses,
        gateways: Vec::new(),
        lease_ms: 0,
        witnesses: None,
    }
}

pub(crate) fn state(status: &Status, address: &str) -> Option<AddressState> {
    let address: IpAddr = address.parse().unwrap();
    let is_address = |report: &&AddressReport| report.address == address;
    let report = status.addresses.iter().find(is_address)?;
    Some(report.state.clone())
}

/// An egress IP of the client's network, claimed at once.
pub(crate) fn failover(address: &str) -> EgressIp {
    EgressIp {
        gateway: "g".to_owned(),
        address: address.parse().unwrap(),
        claim: Claim::Failover,
        sources: vec![CLIENTS.parse().unwrap()],
        interface: None,
        routed: false,
    }
}

/// The same of the client's IPv6 network.
pub(crate) fn ipv6_failover(address: &str) -> EgressIp {
    EgressIp {
        sources: vec![IPV6_CLIENTS.parse().unwrap()],
        ..failover(address)
    }
}

/// As [`failover`], claimed for the first time.
pub(crate) fn first(address: &str) -> EgressIp {
    EgressIp {
        claim: Claim::First,
        ..failover(address)
    }
}
