//! Nodes with VXLAN between them, and traffic through it.
//!
//! Each node's `vx0` has 10.99.0.`index`. Neighbours and forwarding entries are fixed and IPv6 is off,
//! so that nothing but tunnel packets goes over the links, unless a test sends it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use pulsepath_tests::{Cluster, Node, Process, bin_dir, eventually, run};
use serde_json::Value;

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Nodes with VXLAN between all of them.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
}

/// What a node has counted of a peer, one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Scene {
    /// `count` nodes, without agents.
    pub(crate) fn new(purpose: &str, count: u8) -> Self {
        let scene = Self {
            cluster: Cluster::new(&format!("tunnels-{purpose}"), count).unwrap(),
        };
        let nodes = scene.cluster.nodes().iter().map(Node::netns);
        for netns in nodes.chain([scene.cluster.hub()]) {
            let off = "net.ipv6.conf.all.disable_ipv6=1";
            run(netns.command("sysctl").args(["-qw", off])).unwrap();
        }
        for index in 1..=count {
            scene.add_vxlan(index, count);
        }
        scene
    }

    pub(crate) fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    fn add_vxlan(&self, index: u8, count: u8) {
        let (netns, local) = (self.node(index).netns(), self.node(index).ipv4());
        let overlay = overlay(index);
        let mut lines = format!(
            "link add vx0 address {} type vxlan id 42 dstport 4789 local {local} dev eth0 nolearning\n\
             address add {overlay}/24 dev vx0\n\
             link set vx0 up\n",
            mac(index)
        );
        let others = (1..=count).filter(|other| *other != index);
        for other in others.clone() {
            let (underlay, ether) = (self.node(other).ipv4(), self.ether(other));
            // Writing to a string cannot fail.
            let _ = write!(
                lines,
                "neigh replace {underlay} lladdr {ether} dev eth0 nud permanent\n\
                 neigh replace {} lladdr {} dev vx0 nud permanent\n",
                self::overlay(other),
                mac(other)
            );
        }
        netns.ip_batch(&lines).unwrap();
        for other in others {
            let (mac, underlay) = (mac(other), self.node(other).ipv4().to_string());
            let entry = ["fdb", "append", &mac, "dev", "vx0", "dst", &underlay];
            run(netns.command("bridge").args(entry)).unwrap();
        }
    }

    /// The link-layer address of a node's `eth0`.
    fn ether(&self, index: u8) -> String {
        let link = self.node(index).netns().ip("-j link show eth0").unwrap();
        let link: Value = serde_json::from_str(&link).unwrap();
        link[0]["address"].as_str().unwrap().to_owned()
    }

    /// Starts an agent that counts tunnels, and waits until it does.
    pub(crate) fn start(&self, index: u8, settings: &str) -> Process {
        let node = self.node(index);
        let config = node.agent_config(&format!("tunnels.enabled = true\n{settings}"));
        let agent = node.spawn_agent(&config).unwrap();
        self.wait_until_counting(index);
        agent
    }

    pub(crate) fn wait_until_counting(&self, index: u8) {
        let counting = "pulsepath_tunnels_counted{device=\"eth0\"} 1";
        eventually(SOON, || match self.node(index).agent_http("/metrics") {
            Ok(response) if response.body.contains(counting) => Ok(()),
            Ok(response) => Err(response.body),
            Err(error) => Err(format!("{error:#}")),
        });
    }

    /// Switches off what lets large packets leave and arrive as one.
    pub(crate) fn without_offloads(&self, index: u8) {
        let off = ["-K", "eth0", "tso", "off", "gso", "off", "gro", "off"];
        let netns = self.node(index).netns();
        run(netns.command("ethtool").args(off)).unwrap();
    }

    /// Sends `count` packets through the tunnel.
    pub(crate) fn packets(&self, from: u8, to: u8, count: u32) {
        let bind = |index: u8| {
            let bind = move || UdpSocket::bind((overlay(index), 4000)).unwrap();
            self.node(index).netns().enter(bind).unwrap()
        };
        // Nobody answers that the port is closed.
        let (sender, _receiver) = (bind(from), bind(to));
        for _ in 0..count {
            sender.send_to(&[7; 1000], (overlay(to), 4000)).unwrap();
        }
    }

    /// Sends so many bytes through the tunnel over TCP, and waits until all have arrived.
    pub(crate) fn stream(&self, from: u8, to: u8, bytes: usize) {
        let listen = move || TcpListener::bind((overlay(to), 0)).unwrap();
        let listener = self.node(to).netns().enter(listen).unwrap();
        let server = listener.local_addr().unwrap();
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = 0;
            let mut buffer = vec![0; 1 << 16];
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => return received,
                    more => received += more,
                }
            }
        });
        let connect = move || TcpStream::connect(server).unwrap();
        let mut stream = self.node(from).netns().enter(connect).unwrap();
        stream.write_all(&vec![7; bytes]).unwrap();
        drop(stream);
        assert_eq!(receiver.join().unwrap(), bytes);
    }

    /// What node `index` has counted of `peer`: received, and sent.
    pub(crate) fn counts(&self, index: u8, peer: u8) -> [Count; 2] {
        let report = self.inspect(index);
        let address = self.node(peer).ipv4().to_string();
        let all = report["tunnels"].as_array().unwrap();
        let found = all.iter().find(|it| it["peer"] == address.as_str());
        ["received", "sent"].map(|direction| {
            found.map_or_else(Count::default, |it| Count {
                packets: it[direction]["packets"].as_u64().unwrap(),
                bytes: it[direction]["bytes"].as_u64().unwrap(),
            })
        })
    }

    /// What `inspect tunnels -o json` says.
    pub(crate) fn inspect(&self, index: u8) -> Value {
        serde_json::from_str(&self.inspect_tunnels(index, &["-o", "json"])).unwrap()
    }

    /// What `inspect tunnels` says.
    pub(crate) fn inspect_tunnels(&self, index: u8, arguments: &[&str]) -> String {
        let node = self.node(index);
        let program = bin_dir().unwrap().join("pulsepath-agent");
        let mut command = node.netns().command(program);
        command.args(["inspect", "tunnels", "--pin-dir"]);
        run(command.arg(node.pin_dir()).args(arguments)).unwrap()
    }

    /// What the kernel has counted on a node's `eth0`: received, and sent.
    pub(crate) fn on_the_link(&self, index: u8) -> [Count; 2] {
        let link = self.node(index).netns().ip("-s -j link show eth0").unwrap();
        let link: Value = serde_json::from_str(&link).unwrap();
        ["rx", "tx"].map(|direction| {
            let counted = &link[0]["stats64"][direction];
            Count {
                packets: counted["packets"].as_u64().unwrap(),
                bytes: counted["bytes"].as_u64().unwrap(),
            }
        })
    }
}

impl Count {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// A node's address in the overlay.
pub(crate) fn overlay(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, index)
}

fn mac(index: u8) -> String {
    format!("02:99:00:00:00:{index:02x}")
}
