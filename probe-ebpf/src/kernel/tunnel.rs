//! The tunnel counters, for TCX and for clsact filters in direct-action mode, and what the reflector's
//! XDP program does beside its own work. They let every packet pass as it is.

use aya_ebpf::Global;
use aya_ebpf::bindings::{__sk_buff, tcx_action_base, xdp_md};
use aya_ebpf::btf_maps::{Array, LruPerCpuHashMap};
use aya_ebpf::helpers::{bpf_ktime_get_coarse_ns, bpf_xdp_get_buff_len};
use aya_ebpf::macros::{btf_map, classifier};
use aya_ebpf::programs::{TcContext, XdpContext};
use probe_ebpf::frame::Frame;
use probe_ebpf::maps::{
    DEFAULT_TUNNEL_PEERS, Encapsulation, Switch, TunnelConfig, TunnelKey, TunnelPeer,
};
use probe_ebpf::tunnel::{Direction, LinkLayer, Ports, Segments, TunnelPacket, Wire, headers};

use super::frame;
use super::maps::{TUNNEL_SEEN, boot_now};

/// Whether tunnels are counted at all. The verifier removes what a constant rules out, so that off
/// costs nothing in the reflector's XDP program.
#[unsafe(no_mangle)]
static COUNT_TUNNELS: Global<u8> = Global::new(0);

#[btf_map]
static TUNNEL_CONFIG: Array<TunnelConfig, 1> = Array::new();
#[btf_map]
static TUNNEL_PEERS: LruPerCpuHashMap<TunnelKey, TunnelPeer, DEFAULT_TUNNEL_PEERS> =
    LruPerCpuHashMap::new();

/// So many bytes have to be readable for the outer headers: Ethernet, two tags, IPv6 with an extension,
/// UDP and what tells the VNI.
const OUTER_HEADERS: usize = 14 + 2 * 4 + 40 + 8 + 8 + 8;
/// How much of a packet is made readable where they are not.
const READABLE: u32 = 256;
const ETHERNET_HEADER: u32 = 14;
/// Where outer headers end at the latest, for the verifier.
const MOST_HEADERS: u32 = 0xfff;

/// On ingress of devices with Ethernet headers.
#[classifier]
pub(crate) fn tunnel_in(context: TcContext) -> i32 {
    count_skb(&context, LinkLayer::Ethernet, Direction::Received)
}

/// On ingress of devices whose packets begin with the network header.
#[classifier]
pub(crate) fn tunnel_in_ip(context: TcContext) -> i32 {
    count_skb(&context, LinkLayer::None, Direction::Received)
}

/// On egress of devices with Ethernet headers.
#[classifier]
pub(crate) fn tunnel_out(context: TcContext) -> i32 {
    count_skb(&context, LinkLayer::Ethernet, Direction::Sent)
}

/// On egress of devices whose packets begin with the network header.
#[classifier]
pub(crate) fn tunnel_out_ip(context: TcContext) -> i32 {
    count_skb(&context, LinkLayer::None, Direction::Sent)
}

/// Counts a packet that the reflector lets pass, if tunnels are counted.
#[inline(always)]
pub(super) fn count_xdp(context: &XdpContext) {
    if COUNT_TUNNELS.load() != 0 {
        count_received(context.ctx);
    }
}

/// Counts a packet, if this is the interface whose tunnels the XDP program counts.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_received(context: *mut xdp_md) -> u32 {
    // SAFETY: the verifier lets only a program's context be passed.
    let (interface, length) =
        unsafe { ((*context).ingress_ifindex, bpf_xdp_get_buff_len(context)) };
    if TUNNEL_CONFIG
        .get(0)
        .is_none_or(|config| config.xdp_interface != interface)
    {
        return 0;
    }
    let context = XdpContext::new(context);
    // SAFETY: the kernel lends the packet to the program until it returns.
    let frame =
        unsafe { Frame::from_raw(context.data() as *mut u8, context.data_end() as *mut u8) };
    let packet = TunnelPacket::read(
        &frame,
        LinkLayer::Ethernet,
        Direction::Received,
        &KernelPorts,
    );
    if let Ok(Some(packet)) = packet {
        let wire = Wire {
            packets: 1,
            bytes: length,
        };
        count(&packet.key, Direction::Received, wire);
    }
    0
}

#[inline(always)]
fn count_skb(context: &TcContext, link: LinkLayer, direction: Direction) -> i32 {
    let linear = context.data_end() - context.data();
    if linear < OUTER_HEADERS && linear < context.len() as usize {
        // If it fails, the packet is judged by the bytes that are there.
        let _ = context.pull_data(context.len().min(READABLE));
    }
    if let Some((key, wire)) = read(context, link, direction) {
        count(&key, direction, wire);
    }
    // Also what a clsact filter returns to leave the decision to those behind it (TC_ACT_UNSPEC).
    tcx_action_base::TCX_NEXT
}

/// Whose packet it is, and how much.
#[inline(always)]
fn read(context: &TcContext, device: LinkLayer, direction: Direction) -> Option<(TunnelKey, Wire)> {
    let frame = frame(context);
    let link = match direction {
        Direction::Received => device.received(&frame, protocol(context)),
        Direction::Sent => device,
    };
    let packet = TunnelPacket::read(&frame, link, direction, &KernelPorts).ok()??;
    let mut segments = segments(context);
    if link != device {
        segments.beside += ETHERNET_HEADER;
    }
    let headers = if segments.are_many() {
        let (payload, encapsulation) = (packet.payload as u32, packet.key.encapsulation as u32);
        repeated_headers(context.skb.skb, payload, encapsulation)
    } else {
        0
    };
    Some((packet.key, segments.on_the_wire(headers as usize)))
}

/// The ports as their map lists them.
struct KernelPorts;

impl Ports for KernelPorts {
    #[inline(always)]
    fn udp_tunnel(&self, source: u16, destination: u16) -> Option<Encapsulation> {
        Encapsulation::from_index(udp_tunnel(source.into(), destination.into()))
    }

    #[inline(always)]
    fn per_vni(&self) -> bool {
        TUNNEL_CONFIG
            .get(0)
            .is_some_and(|config| matches!(config.per_vni, Switch::On))
    }
}

/// What a UDP packet between these ports carries, or a number that stands for nothing. A function that
/// the verifier judges by itself, once, and not again for every way on which a packet can come to it;
/// and so are the next ones.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn udp_tunnel(source: u32, destination: u32) -> u32 {
    TUNNEL_CONFIG
        .get(0)
        .and_then(|config| config.udp_tunnel(source as u16, destination as u16))
        .map_or(u32::MAX, |encapsulation| encapsulation as u32)
}

/// [`headers`] of a large packet; of one that ends before, what is known of them.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn repeated_headers(context: *mut __sk_buff, payload: u32, encapsulation: u32) -> u32 {
    let context = TcContext::new(context);
    let payload = payload & MOST_HEADERS;
    let Some(encapsulation) = Encapsulation::from_index(encapsulation) else {
        return payload;
    };
    headers(&frame(&context), payload as usize, encapsulation).map_or(payload, |it| it as u32)
}

/// As the kernel calls it, in packet byte order.
#[inline(always)]
fn protocol(context: &TcContext) -> u16 {
    // SAFETY: the context is valid while the program runs.
    unsafe { (*context.skb.skb).protocol as u16 }
}

#[inline(always)]
fn segments(context: &TcContext) -> Segments {
    /// Of a VLAN tag.
    const TAG: u32 = 4;
    // SAFETY: the context is valid while the program runs.
    let skb = unsafe { &*context.skb.skb };
    Segments {
        length: skb.len,
        beside: if skb.vlan_present != 0 { TAG } else { 0 },
        count: skb.gso_segs,
        size: skb.gso_size,
    }
}

/// Notes that a tunnel's packet was received. Once a tick, so that CPUs do not take the entry from
/// each other with every packet, nor read the clock.
#[inline(always)]
fn see(now: u64) {
    if let Some(seen) = TUNNEL_SEEN.get_ptr_mut(0) {
        // SAFETY: the entry stays in memory. Whoever writes at the same time writes nearly the same.
        unsafe {
            if (*seen).tick_ns != now {
                (*seen).tick_ns = now;
                (*seen).last_ns = boot_now();
            }
        }
    }
}

#[inline(always)]
fn count(key: &TunnelKey, direction: Direction, wire: Wire) {
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_coarse_ns() };
    if matches!(direction, Direction::Received) {
        see(now);
    }
    if let Some(peer) = TUNNEL_PEERS.get_ptr_mut(key) {
        // SAFETY: this CPU's own values, which only programs write, and these do not interrupt each
        // other. The entry's memory stays a peer's while the program runs.
        let peer = unsafe { &mut *peer };
        let count = match direction {
            Direction::Received => &mut peer.received,
            Direction::Sent => &mut peer.sent,
        };
        count.add(wire.packets, wire.bytes, now);
        return;
    }
    let mut peer = TunnelPeer::default();
    match direction {
        Direction::Received => peer.received.add(wire.packets, wire.bytes, now),
        Direction::Sent => peer.sent.add(wire.packets, wire.bytes, now),
    }
    // A full map forgets whoever has been unseen for longest. An error is lack of memory, and a packet
    // that is not counted.
    let _ = TUNNEL_PEERS.insert(key, &peer, 0);
}
