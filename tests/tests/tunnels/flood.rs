//! Packets from a million addresses that are nobody's, between those of real peers.

use std::net::Ipv4Addr;

use probe_ebpf::maps::DEFAULT_TUNNEL_PEERS;
use probe_ebpf::testing::FrameSpec;
use probe_user::kernel::{Tunnels, version_directory};
use pulsepath_tests::metrics::sum;
use pulsepath_tests::{Node, eventually};

use crate::scene::{SOON, Scene};

const FALSE_PEERS: u32 = 1_000_000;
const REAL_PEERS: u32 = 50;
/// False packets between two real ones.
const BETWEEN: u32 = 4;
/// What each real peer sends.
const EACH: u32 = FALSE_PEERS / BETWEEN / REAL_PEERS;

const ETHERNET_HEADER: usize = 14;
const CHECKSUM: usize = ETHERNET_HEADER + 10;
const SOURCE: usize = ETHERNET_HEADER + 12;

fn real(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a08_0000 + number)
}

/// Not in order, as the real ones are, and never the same.
fn spoofed(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x2000_0000 | number.wrapping_mul(2_654_435_769) >> 4)
}

/// What comes to the wire, real peers' packets between the false ones.
fn sources() -> impl Iterator<Item = Ipv4Addr> + Send {
    (0..FALSE_PEERS).flat_map(|number| {
        let turn = number % BETWEEN == 0;
        let peer = turn.then(|| real(number / BETWEEN % REAL_PEERS));
        [Some(spoofed(number)), peer].into_iter().flatten()
    })
}

/// A VXLAN packet to a node, from anybody: building each anew would take longer than sending it.
struct Template(Vec<u8>);

impl Template {
    fn new(to: &Node) -> Self {
        let spec = FrameSpec::new(&[8; 50]).from_address(Ipv4Addr::UNSPECIFIED);
        let mut frame = spec.to_port(4789).build();
        frame[..6].copy_from_slice(&to.netns().mac("eth0").unwrap());
        Self(frame)
    }

    fn from(&self, source: Ipv4Addr) -> Vec<u8> {
        let mut frame = self.0.clone();
        frame[SOURCE..SOURCE + 4].copy_from_slice(&source.octets());
        let word = |at: usize| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
        // RFC 1624: the source was 0 before.
        let sum = 0xffff - word(CHECKSUM) + word(SOURCE) + word(SOURCE + 2);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        frame
    }
}

/// What the controller has lost of its probes to n1.
fn lost(scene: &Scene) -> u64 {
    let metrics = scene.node(2).controller_http("/metrics").unwrap().body;
    sum(&metrics, "probes_lost_total", "node=\"n1\"").unwrap()
}

#[test]
fn a_flood_of_false_peers_takes_no_memory_no_real_peers_count_and_no_probe() {
    let scene = Scene::new("flood", 2);
    let _agents = [1, 2].map(|index| scene.start(index, "beat.timeout = '10s'"));
    let settings = "period = '50ms'\ntimeout = '10s'";
    let _controller = scene.start_controller(2, settings);
    scene.wait_until_available(2, "n1");
    let before = lost(&scene);

    let template = Template::new(scene.node(1));
    let frames = sources().map(|source| template.from(source));
    scene.node(2).netns().send_frames("eth0", frames).unwrap();

    let directory = version_directory(scene.node(1).pin_dir());
    let tunnels = Tunnels::open(&directory).unwrap();
    let peers = eventually(SOON, || {
        let peers = tunnels.peers().unwrap();
        let packets = |number| {
            let peer = peers.iter().find(|peer| peer.address == real(number));
            peer.map_or(0, |peer| peer.received.packets)
        };
        let all: Vec<u64> = (0..REAL_PEERS).map(packets).collect();
        let right = all.iter().all(|it| *it == u64::from(EACH));
        right.then_some(peers.len()).ok_or(all)
    });
    println!("{peers} peers, each real one's {EACH} packets counted");
    assert!(peers <= DEFAULT_TUNNEL_PEERS, "{peers}");
    assert_eq!(lost(&scene), before, "probes");
}
