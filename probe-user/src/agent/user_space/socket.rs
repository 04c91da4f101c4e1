//! A socket of the reflector.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use probe_ebpf::frame::Frame;
use probe_ebpf::maps::ProbeConfig;
use probe_ebpf::outcome::Verdict;
use probe_ebpf::reflect::reflect;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tracing::{debug, error};

use super::{SharedNode, frame};

/// Longer datagrams are cut, and dropped as too long.
const BUFFER: usize = 2048;
const HOP_LIMIT: u8 = 64;
/// Hop limit of S-BFD replies (RFC 7881 section 5).
const SBFD_HOP_LIMIT: u8 = 255;

/// A socket that is bound to one management address and port.
pub(super) struct ReflectorSocket {
    socket: UdpSocket,
    local: SocketAddr,
}

struct Received {
    source: SocketAddr,
    ttl: u8,
    length: usize,
}

impl ReflectorSocket {
    pub(super) fn bind(local: SocketAddr, config: &ProbeConfig) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        let is_probe_port = local.port() == config.probe_port;
        let hop_limit = i32::from(if is_probe_port {
            HOP_LIMIT
        } else {
            SBFD_HOP_LIMIT
        });
        if local.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)?;
            setsockopt(&socket, sockopt::Ipv4Ttl, &hop_limit)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?;
            setsockopt(&socket, sockopt::Ipv6Ttl, &hop_limit)?;
        }
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            local,
        })
    }

    /// Answers until the socket fails.
    pub(super) async fn serve(self, node: SharedNode) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let receive = || self.receive(&mut buffer);
            let received = match self.socket.async_io(Interest::READABLE, receive).await {
                Ok(received) => received,
                // An ICMP error about an earlier reply; the socket goes on.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => {
                    error!(local = %self.local, %error, "the reflector's socket fails");
                    return;
                }
            };
            let Some(Received {
                source,
                ttl,
                length,
            }) = received
            else {
                continue;
            };
            let mut datagram = frame::around(source, self.local, ttl, &buffer[..length]);
            let outcome = {
                let mut node = node.lock();
                let outcome = reflect(&mut Frame::new(&mut datagram), &*node);
                node.count(outcome);
                outcome
            };
            debug!(%source, outcome = outcome.label(), "judged a packet");
            if outcome.verdict() == Verdict::Reply {
                let reply = frame::payload(&datagram, length);
                if let Err(error) = self.socket.send_to(reply, source).await {
                    debug!(%source, %error, "cannot send a reply");
                }
            }
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut parts = [IoSliceMut::new(buffer)];
        let mut control = cmsg_space!(i32);
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        let ttl = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => Some(ttl),
            _ => None,
        });
        let ttl = ttl
            .and_then(|ttl| u8::try_from(ttl).ok())
            .unwrap_or_default();
        let source = message.address.as_ref().and_then(socket_address);
        let length = message.bytes;
        Ok(source.map(|source| Received {
            source,
            ttl,
            length,
        }))
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    address
        .as_sockaddr_in6()
        .map(|v6| SocketAddrV6::from(*v6).into())
}
