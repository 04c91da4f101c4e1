//! A packet socket on one interface, for one protocol.

#![expect(
    unsafe_code,
    reason = "no safe crate binds packet sockets or attaches filters"
)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::super::NetError;
use super::{arp, nd};

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    Arp,
    Nd,
}

impl Protocol {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::Arp
        } else {
            Self::Nd
        }
    }

    fn ethertype(self) -> u16 {
        match self {
            Self::Arp => arp::ETHERTYPE,
            Self::Nd => nd::ETHERTYPE,
        }
    }
}

/// A packet socket.
pub(super) struct PacketSocket {
    socket: AsyncFd<OwnedFd>,
    link: u32,
}

impl PacketSocket {
    /// Opens a socket on the interface of index `link`. Needs a tokio runtime.
    pub(super) fn open(link: u32, protocol: Protocol) -> Result<Self, NetError> {
        let failed = |call| move |source| NetError::Packet { link, call, source };
        // Protocol 0: nothing is received before the filter is there and the socket bound.
        let socket = new_socket().map_err(failed("socket"))?;
        if protocol == Protocol::Nd {
            attach(&socket, &mut neighbour_discovery())
                .map_err(failed("setsockopt(SO_ATTACH_FILTER)"))?;
        }
        bind(&socket, link, protocol.ethertype()).map_err(failed("bind"))?;
        // SAFETY: an `OwnedFd` stays open, and the same, until it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        let socket = registered.map_err(|error| failed("epoll_ctl")(error.into()))?;
        Ok(Self { socket, link })
    }

    pub(super) fn link(&self) -> u32 {
        self.link
    }

    /// Sends a whole frame. A queue that is full is an error: whoever calls says it again anyway.
    pub(super) fn send(&self, frame: &[u8]) -> Result<(), NetError> {
        let sent = nix::unistd::write(self.socket.get_ref(), frame);
        sent.map(drop).map_err(|errno| NetError::Packet {
            link: self.link,
            call: "send",
            source: errno.into(),
        })
    }

    /// Waits for a frame; what is longer than `frame` is cut off.
    pub(super) async fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        let read = |socket: &OwnedFd| Ok(nix::unistd::read(socket, frame)?);
        self.socket.async_io(Interest::READABLE, read).await
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(socket)?;
    // SAFETY: the kernel has just handed out this descriptor; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn bind(socket: &OwnedFd, link: u32, ethertype: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: link.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address lives through the call and has this length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Solicitations and advertisements of neighbours: the only ones of all IPv6 packets that a gateway
/// sees which are worth waking up for.
fn neighbour_discovery() -> [libc::sock_filter; 7] {
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jt, jf, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    [
        step(LOAD_BYTE, 0, 0, nd::NEXT_HEADER as u32),
        step(JUMP_IF_EQUAL, 0, 4, nd::ICMPV6.into()),
        step(LOAD_BYTE, 0, 0, nd::TYPE as u32),
        step(JUMP_IF_EQUAL, 1, 0, nd::SOLICITATION.into()),
        step(JUMP_IF_EQUAL, 0, 1, nd::ADVERTISEMENT.into()),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

fn attach(socket: &OwnedFd, filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its steps live through the call, and the kernel copies them.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
