//! Sees every frame that a node sends on the external segment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use nix::libc;
use nix::sys::socket::{LinkAddr, recvfrom};

use super::{External, FIRST_PORT};
use crate::link;

/// How long the recorder waits for a frame before it looks whether it is to end.
const STEP: Duration = Duration::from_millis(50);

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// An Ethernet, an IPv6 and a neighbour advertisement's header.
const LONGEST: usize = 14 + 40 + 24;

/// What a frame does with an egress IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is a packet from it.
    Packet,
    /// It tells neighbours who has it: ARP, or a neighbour advertisement.
    Neighbour,
}

/// A frame that claims to come from the egress IP.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// When it was seen.
    pub at: Instant,
    /// The node that sent it.
    pub node: u8,
    /// How it claims it.
    pub how: Use,
}

/// Records until it is asked for what it saw.
#[derive(Debug)]
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Claim>>,
}

impl Recorder {
    /// Of all frames from `address` that any node sends on the external segment.
    ///
    /// # Errors
    /// No packet socket can be opened there.
    pub fn start(external: &External, address: IpAddr) -> Result<Self> {
        let socket = external.outside().enter(|| link::socket_with(STEP))??;
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || record(&socket, address, &until));
        Ok(Self { stop, thread })
    }

    /// What was seen, in order.
    ///
    /// # Errors
    /// The recorder panicked.
    pub fn finish(self) -> Result<Vec<Claim>> {
        self.stop.store(true, Ordering::Relaxed);
        let claims = self.thread.join();
        claims.map_err(|_| anyhow!("the recorder panicked"))
    }
}

/// For how long the old owner was still seen after the new one had begun; zero: never two owners.
pub fn overlap(claims: &[Claim], old: u8, new: u8) -> Duration {
    let begun = claims.iter().find(|claim| claim.node == new);
    let ended = claims.iter().rev().find(|claim| claim.node == old);
    match (begun, ended) {
        (Some(begun), Some(ended)) => ended.at.saturating_duration_since(begun.at),
        _ => Duration::ZERO,
    }
}

fn record(socket: &OwnedFd, address: IpAddr, until: &AtomicBool) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut frame = [0; LONGEST];
    while !until.load(Ordering::Relaxed) {
        let Ok((length, Some(from))) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut frame) else {
            continue;
        };
        if from.as_ref().sll_pkttype == libc::PACKET_OUTGOING {
            continue;
        }
        let Some(node) = node_at(from.ifindex()) else {
            continue;
        };
        if let Some((how, source)) = claimed(&frame[..length.min(LONGEST)])
            && source == address
        {
            let at = Instant::now();
            claims.push(Claim { at, node, how });
        }
    }
    claims
}

/// The node behind a port of the external bridge.
fn node_at(port: usize) -> Option<u8> {
    let node = u8::try_from(port.checked_sub(FIRST_PORT as usize)?).ok()?;
    (node != 0).then_some(node)
}

/// Whom an Ethernet frame claims to be from, and how.
fn claimed(frame: &[u8]) -> Option<(Use, IpAddr)> {
    let ethertype = u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
    let v4 = |offset| Some(IpAddr::from(Ipv4Addr::from(bytes::<4>(frame, offset)?)));
    let v6 = |offset| Some(IpAddr::from(Ipv6Addr::from(bytes::<16>(frame, offset)?)));
    match ethertype {
        IPV4 => Some((Use::Packet, v4(14 + 12)?)),
        ARP => Some((Use::Neighbour, v4(14 + 14)?)),
        IPV6 if frame.get(14 + 6) == Some(&ICMPV6)
            && frame.get(14 + 40) == Some(&NEIGHBOUR_ADVERTISEMENT) =>
        {
            Some((Use::Neighbour, v6(14 + 40 + 8)?))
        }
        IPV6 => Some((Use::Packet, v6(14 + 8)?)),
        _ => None,
    }
}

fn bytes<const N: usize>(frame: &[u8], offset: usize) -> Option<[u8; N]> {
    frame.get(offset..offset + N)?.try_into().ok()
}
