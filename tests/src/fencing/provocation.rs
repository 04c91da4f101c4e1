//! Keeps asking for the egress IP, so that whoever answers for it is seen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use nix::sys::socket::{MsgFlags, sendto};

use crate::{Netns, link};

/// How often it is asked.
const PERIOD: Duration = Duration::from_millis(10);
/// A host of the segment that is not there: nobody learns a wrong address from it.
const ASKER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 200);
const ASKER_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 0x200);
const ASKER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0xaa];

/// ARP requests, or neighbour solicitations, to everybody until it is dropped.
#[derive(Debug)]
pub struct Provocation {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provocation {
    /// Asks from the bridge in `outside` who has `address`.
    ///
    /// # Errors
    /// No packet socket can be opened there.
    pub fn start(outside: &Netns, address: IpAddr) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let (socket, to) = outside
            .enter(|| -> Result<_> { Ok((link::socket_with(PERIOD)?, link::address("br0")?)) })??;
        let frame = match address {
            IpAddr::V4(address) => arp_request(address),
            IpAddr::V6(address) => solicitation(address),
        };
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                // The bridge may be busy; the next one will do.
                let _ = sendto(socket.as_raw_fd(), &frame, &to, MsgFlags::empty());
                std::thread::sleep(PERIOD);
            }
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Provocation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}

/// RFC 826.
fn arp_request(address: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend([0xff; 6]);
    frame.extend(ASKER_MAC);
    // ARP, for IPv4 over Ethernet, request.
    frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend(ASKER_MAC);
    frame.extend(ASKER.octets());
    frame.extend([0; 6]);
    frame.extend(address.octets());
    frame
}

/// RFC 4861, section 4.3, to the solicited-node multicast address.
fn solicitation(address: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = address.octets();
    let group = Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    );
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(address.octets());
    // Option: the asker's link-layer address.
    message.extend([1, 1]);
    message.extend(ASKER_MAC);
    let length = message.len() as u8;
    let mut pseudo = Vec::new();
    pseudo.extend(ASKER_IPV6.octets());
    pseudo.extend(group.octets());
    pseudo.extend([0, 0, 0, length, 0, 0, 0, 58]);
    pseudo.extend(&message);
    message[2..4].copy_from_slice(&checksum(&pseudo).to_be_bytes());

    let mut frame = Vec::new();
    frame.extend([0x33, 0x33, 0xff, a, b, c]);
    frame.extend(ASKER_MAC);
    // IPv6, ICMPv6, hop limit 255.
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, 58, 255]);
    frame.extend(ASKER_IPV6.octets());
    frame.extend(group.octets());
    frame.extend(message);
    frame
}

/// RFC 1071, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0.iter();
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
