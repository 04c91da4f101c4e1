//! What nodes say to each other about addresses on a link: ARP (RFC 826, RFC 5227) and neighbour
//! discovery (RFC 4861, RFC 4862).
//!
//! [`arp`] and [`nd`] make and read frames, [`socket`] sends and receives them, and [`Wire`] holds
//! one socket per interface and protocol.

mod arp;
mod nd;
mod socket;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::NetError;
use socket::{PacketSocket, Protocol};

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

const BROADCAST: Mac = [0xff; 6];

/// Messages that wait to be looked at. More are dropped: their senders repeat them.
const BACKLOG: usize = 256;

/// Somebody else who claims an address, or asks for one before claiming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) address: IpAddr,
    pub(crate) mac: Mac,
    /// Only asked for, as one does before claiming an address.
    pub(crate) probing: bool,
}

/// A [`Claimed`], and on which interface it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) link: u32,
    pub(crate) claimed: Claimed,
}

/// Sockets on the interfaces where the node has egress IPs, or shall have them.
pub(crate) struct Wire {
    sockets: HashMap<(u32, Protocol), Listener>,
    ears: Ears,
}

/// What listeners share. A busy segment sees hundreds of ARP requests a second, of which none
/// concerns us.
#[derive(Clone)]
struct Ears {
    addresses: watch::Sender<HashSet<IpAddr>>,
    heard: mpsc::Sender<Heard>,
}

struct Listener {
    socket: Arc<PacketSocket>,
    mac: Mac,
    task: JoinHandle<()>,
}

impl Wire {
    /// No sockets yet; what they hear comes out of the receiver.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Heard>) {
        let (heard, receiver) = mpsc::channel(BACKLOG);
        let wire = Self {
            sockets: HashMap::new(),
            ears: Ears {
                addresses: watch::Sender::default(),
                heard,
            },
        };
        (wire, receiver)
    }

    /// Listens on these interfaces (index, Ethernet address, egress IPs there), and on no others.
    pub(crate) fn watch(
        &mut self,
        links: &BTreeMap<u32, (Mac, Vec<IpAddr>)>,
    ) -> Result<(), NetError> {
        let mut wanted = HashMap::new();
        for (&link, (mac, addresses)) in links {
            for address in addresses {
                wanted.insert((link, Protocol::of(*address)), *mac);
            }
        }
        let addresses = links.values().flat_map(|(_, addresses)| addresses);
        self.ears
            .addresses
            .send_replace(addresses.copied().collect());
        self.sockets.retain(|key, listener| {
            wanted.get(key) == Some(&listener.mac) && !listener.task.is_finished()
        });
        for ((link, protocol), mac) in wanted {
            if !self.sockets.contains_key(&(link, protocol)) {
                let listener = Listener::start(link, protocol, mac, self.ears.clone())?;
                self.sockets.insert((link, protocol), listener);
            }
        }
        Ok(())
    }

    /// Asks who has `address`, as one does before claiming it (RFC 5227 2.1.1, RFC 4862 5.4.2).
    pub(crate) fn probe(&self, link: u32, address: IpAddr) -> Result<(), NetError> {
        self.send(link, address, |mac| match address {
            IpAddr::V4(address) => arp::probe(mac, address),
            IpAddr::V6(address) => nd::probe(mac, address),
        })
    }

    /// Tells everybody that `address` is here (RFC 5227 2.3, RFC 4861 7.2.6).
    pub(crate) fn announce(&self, link: u32, address: IpAddr) -> Result<(), NetError> {
        self.send(link, address, |mac| match address {
            IpAddr::V4(address) => arp::announcement(mac, address),
            IpAddr::V6(address) => nd::announcement(mac, address),
        })
    }

    fn send(
        &self,
        link: u32,
        address: IpAddr,
        frame: impl FnOnce(Mac) -> Vec<u8>,
    ) -> Result<(), NetError> {
        let listener = self.sockets.get(&(link, Protocol::of(address)));
        let listener = listener.ok_or(NetError::NotWatched { address, link })?;
        listener.socket.send(&frame(listener.mac))
    }
}

impl Listener {
    fn start(link: u32, protocol: Protocol, mac: Mac, ears: Ears) -> Result<Self, NetError> {
        let socket = Arc::new(PacketSocket::open(link, protocol)?);
        let task = tokio::spawn(listen(socket.clone(), protocol, mac, ears));
        Ok(Self { socket, mac, task })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends when the interface is gone; [`Wire::watch`] opens another socket then.
async fn listen(socket: Arc<PacketSocket>, protocol: Protocol, mac: Mac, ears: Ears) {
    let mut frame = [0; 256];
    while let Ok(length) = socket.receive(&mut frame).await {
        let claimed = match protocol {
            Protocol::Arp => arp::read(&frame[..length]),
            Protocol::Nd => nd::read(&frame[..length]),
        };
        let concerns_us =
            |it: &Claimed| it.mac != mac && ears.addresses.borrow().contains(&it.address);
        if let Some(claimed) = claimed.filter(concerns_us) {
            let link = socket.link();
            // Full: whoever claims an address says so again.
            let _ = ears.heard.try_send(Heard { link, claimed });
        }
    }
}

/// An Ethernet header.
fn ethernet(destination: Mac, source: Mac, ethertype: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(96);
    frame.extend(destination);
    frame.extend(source);
    frame.extend(ethertype.to_be_bytes());
    frame
}

/// `N` bytes of a frame.
fn bytes<const N: usize>(frame: &[u8], offset: usize) -> Option<[u8; N]> {
    frame.get(offset..offset + N)?.try_into().ok()
}
