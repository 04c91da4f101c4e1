//! The tunnel counters, for TCX and for clsact filters in direct-action mode, and what the reflector's
//! XDP program does beside its own work. They let every packet pass as it is.

use aya_ebpf::Global;
use aya_ebpf::bindings::{tcx_action_base, xdp_md};
use aya_ebpf::btf_maps::{Array, LruPerCpuHashMap};
use aya_ebpf::helpers::{bpf_ktime_get_coarse_ns, bpf_xdp_get_buff_len};
use aya_ebpf::macros::{btf_map, classifier};
use aya_ebpf::programs::{TcContext, XdpContext};
use probe_ebpf::frame::{Frame, Truncated};
use probe_ebpf::maps::{DEFAULT_TUNNEL_PEERS, TunnelConfig, TunnelKey, TunnelPeer};
use probe_ebpf::tunnel::{Direction, LinkLayer, Segments, TunnelPacket, Wire};

use super::frame;

/// Whether tunnels are counted at all. The verifier removes what a constant rules out, so that off
/// costs nothing in the reflector's XDP program.
#[unsafe(no_mangle)]
static COUNT_TUNNELS: Global<u8> = Global::new(0);

#[btf_map]
static TUNNEL_CONFIG: Array<TunnelConfig, 1> = Array::new();
#[btf_map]
static TUNNEL_PEERS: LruPerCpuHashMap<TunnelKey, TunnelPeer, DEFAULT_TUNNEL_PEERS> =
    LruPerCpuHashMap::new();

/// How much of a packet is made readable where its headers are not.
const HEADERS: u32 = 512;
const ETHERNET_HEADER: u32 = 14;

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

/// Counts a packet, if this is the interface whose tunnels the XDP program counts. A function that the
/// verifier judges by itself, once, and not again for every way on which a packet can come to it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_received(context: *mut xdp_md) -> u32 {
    // SAFETY: the verifier lets only a program's context be passed.
    let (interface, length) =
        unsafe { ((*context).ingress_ifindex, bpf_xdp_get_buff_len(context)) };
    let Some(config) = TUNNEL_CONFIG
        .get(0)
        .filter(|it| it.xdp_interface == interface)
    else {
        return 0;
    };
    let context = XdpContext::new(context);
    // SAFETY: the kernel lends the packet to the program until it returns.
    let frame =
        unsafe { Frame::from_raw(context.data() as *mut u8, context.data_end() as *mut u8) };
    let packet = TunnelPacket::read(&frame, LinkLayer::Ethernet, Direction::Received, config);
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
    if let Some(config) = TUNNEL_CONFIG.get(0)
        && let Some((key, wire)) = read(context, link, direction, config)
    {
        count(&key, direction, wire);
    }
    // Also what a clsact filter returns to leave the decision to those behind it (TC_ACT_UNSPEC).
    tcx_action_base::TCX_NEXT
}

/// Whose packet it is, and how much. Headers that lie outside its linear part are pulled into it only
/// when they turn out to be missing: it can mean a copy of them.
#[inline(always)]
fn read(
    context: &TcContext,
    link: LinkLayer,
    direction: Direction,
    config: &TunnelConfig,
) -> Option<(TunnelKey, Wire)> {
    let linear = context.data_end() - context.data();
    let found = match try_read(context, link, direction, config) {
        Err(Truncated) if linear < context.len() as usize => {
            context.pull_data(context.len().min(HEADERS)).ok()?;
            try_read(context, link, direction, config)
        }
        found => found,
    };
    found.ok()?
}

#[inline(always)]
fn try_read(
    context: &TcContext,
    link: LinkLayer,
    direction: Direction,
    config: &TunnelConfig,
) -> Result<Option<(TunnelKey, Wire)>, Truncated> {
    let frame = frame(context);
    let device = link;
    let link = match direction {
        Direction::Received => device.received(&frame, protocol(context)),
        Direction::Sent => device,
    };
    let Some(packet) = TunnelPacket::read(&frame, link, direction, config)? else {
        return Ok(None);
    };
    let mut segments = segments(context);
    if link != device {
        segments.beside += ETHERNET_HEADER;
    }
    let headers = if segments.are_many() {
        packet.headers(&frame)?
    } else {
        0
    };
    Ok(Some((packet.key, segments.on_the_wire(headers))))
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

#[inline(always)]
fn count(key: &TunnelKey, direction: Direction, wire: Wire) {
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_coarse_ns() };
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
