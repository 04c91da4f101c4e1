//! Sees every frame that a node sends on the external segment.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use pulsepath_tests::Netns;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;

/// A frame that claims to come from the egress IP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) at: Instant,
    /// Index of the port that it came in by.
    pub(crate) port: u32,
    pub(crate) arp: bool,
}

/// Records until it is asked for what it saw.
pub(crate) struct Recorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Claim>>,
}

impl Recorder {
    /// Of all frames from `address` on any port of the bridge in `outside`.
    pub(crate) fn start(outside: &Netns, address: Ipv4Addr) -> Self {
        let socket = outside.enter(open).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || record(&socket, address, &until));
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> Vec<Claim> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn open() -> OwnedFd {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::empty(),
        SockProtocol::EthAll,
    )
    .unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 50_000)).unwrap();
    setsockopt(&socket, sockopt::RcvBuf, &(8 << 20)).unwrap();
    socket
}

fn record(socket: &OwnedFd, address: Ipv4Addr, until: &AtomicBool) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut frame = [0; 64];
    while !until.load(Ordering::Relaxed) {
        let Ok((length, Some(from))) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut frame) else {
            continue;
        };
        let is_incoming = from.as_ref().sll_pkttype != libc::PACKET_OUTGOING;
        let source = source(&frame[..length.min(frame.len())]);
        if let Some((arp, source)) = source.filter(|(_, source)| is_incoming && *source == address)
        {
            let _: Ipv4Addr = source;
            claims.push(Claim {
                at: Instant::now(),
                port: from.ifindex() as u32,
                arp,
            });
        }
    }
    claims
}

/// Whom an Ethernet frame claims to be from, and whether it is ARP.
fn source(frame: &[u8]) -> Option<(bool, Ipv4Addr)> {
    let ethertype = u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
    let (arp, offset) = match ethertype {
        IPV4 => (false, 14 + 12),
        ARP => (true, 14 + 14),
        _ => return None,
    };
    let bytes: [u8; 4] = frame.get(offset..offset + 4)?.try_into().ok()?;
    Some((arp, bytes.into()))
}

/// For how long the old owner was still seen after the new one had begun; zero: never two owners.
pub(crate) fn overlap(claims: &[Claim], old: u32, new: u32) -> Duration {
    let begun = claims.iter().find(|claim| claim.port == new);
    let ended = claims.iter().rev().find(|claim| claim.port == old);
    match (begun, ended) {
        (Some(begun), Some(ended)) => ended.at.saturating_duration_since(begun.at),
        _ => Duration::ZERO,
    }
}
