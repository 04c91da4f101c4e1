//! Keeps asking for the egress IP, so that whoever answers for it is seen.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike as _, SockaddrStorage,
    sendto, socket,
};
use pulsepath_tests::Netns;

/// How often it is asked.
const PERIOD: Duration = Duration::from_millis(10);
/// A host of the segment that is not there: nobody learns a wrong address from it.
const ASKER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 200);
const ASKER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0xaa];

/// ARP requests to everybody, until it is dropped.
pub(crate) struct Provocation {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provocation {
    /// Asks from the bridge in `outside` who has `address`.
    pub(crate) fn start(outside: &Netns, address: Ipv4Addr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let (socket, bridge) = outside
            .enter(|| {
                let socket = socket(
                    AddressFamily::Packet,
                    SockType::Raw,
                    SockFlag::empty(),
                    SockProtocol::EthAll,
                );
                let bridge = nix::net::if_::if_nametoindex("br0");
                (socket.unwrap(), bridge.unwrap())
            })
            .unwrap();
        let thread = std::thread::spawn(move || {
            let to = link_address(bridge);
            let frame = request(address);
            while !until.load(Ordering::Relaxed) {
                // The bridge may be busy; the next one will do.
                let _ = sendto(socket.as_raw_fd(), &frame, &to, MsgFlags::empty());
                std::thread::sleep(PERIOD);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
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

/// Any host on the link with this index.
fn link_address(index: u32) -> SockaddrStorage {
    // SAFETY: all zeros are a value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ARP as u16).to_be();
    address.sll_ifindex = index as i32;
    address.sll_halen = 6;
    address.sll_addr[..6].fill(0xff);
    // SAFETY: it points to a whole `sockaddr_ll`, whose family says so.
    let storage = unsafe {
        SockaddrStorage::from_raw(
            (&raw const address).cast(),
            Some(size_of::<libc::sockaddr_ll>() as u32),
        )
    };
    storage.unwrap()
}

fn request(address: Ipv4Addr) -> Vec<u8> {
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
