//! One echo request, for both families.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvmsg, sendmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use pulsepath_tests::Netns;

/// Whether `address` answers an echo request from inside `netns` within a second.
pub(crate) fn pings(netns: &Netns, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    netns.enter(|| ask(address)).unwrap()
}

fn ask(address: IpAddr) -> bool {
    // The identifier is 7, and the IPv4 checksum right for that; the kernel makes IPv6's itself.
    let (family, protocol, request, reply) = match address {
        IpAddr::V4(_) => {
            let request = [8, 0, 0xf7, 0xf8, 0, 7, 0, 0];
            (AddressFamily::Inet, SockProtocol::Icmp, request, 0)
        }
        IpAddr::V6(_) => {
            let request = [128, 0, 0, 0, 0, 7, 0, 0];
            (AddressFamily::Inet6, SockProtocol::IcmpV6, request, 129)
        }
    };
    let socket = socket(family, SockType::Raw, SockFlag::empty(), protocol).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(1, 0)).unwrap();
    let to = SockaddrStorage::from(SocketAddr::new(address, 0));
    let request = [IoSlice::new(&request)];
    sendmsg(
        socket.as_raw_fd(),
        &request,
        &[],
        MsgFlags::empty(),
        Some(&to),
    )
    .unwrap();
    let mut buffer = [0; 128];
    loop {
        let mut room = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut room, None, MsgFlags::empty());
        let Ok(length) = received.map(|message| message.bytes) else {
            return false;
        };
        // IPv4's raw sockets show the IP header, too.
        let start = if address.is_ipv4() { 20 } else { 0 };
        let message = &buffer[start..length];
        if message[0] == reply && message[4..6] == [0, 7] {
            return true;
        }
    }
}
