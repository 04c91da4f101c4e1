//! The socket of one internet protocol.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket,
    sockopt,
};

use super::error::Family;
use super::mmsg::{self, Outgoing, ReceiveBatch, SEND_BATCH};
use super::stamp::Stamps;
use super::{SocketError, SocketOptions, SocketStats};
use crate::session::{Prober, TargetId, Transmit};

/// How often a probe that the network refuses is tried again: the refusal may have been that of an
/// earlier probe, which every call but the first no longer reports.
const RETRIES: u32 = 3;

/// A socket, and the probes that go out of it next.
pub(super) struct FamilySocket {
    family: Family,
    socket: OwnedFd,
    outgoing: Vec<Outgoing>,
    /// Whose probe each of `outgoing` is, and its sequence number.
    probes: Vec<(TargetId, u32)>,
    /// The socket's drop counter as last read.
    dropped: u32,
}

impl AsFd for FamilySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl FamilySocket {
    /// Opens the socket. `None`: the system does not have this protocol.
    pub(super) fn open(
        family: Family,
        options: &SocketOptions,
    ) -> Result<Option<Self>, SocketError> {
        let failed = |call| {
            move |errno| SocketError::Setup {
                family,
                call,
                errno,
            }
        };
        let (domain, any) = match family {
            Family::V4 => (
                AddressFamily::Inet,
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            ),
            Family::V6 => (
                AddressFamily::Inet6,
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            ),
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = match socket(domain, SockType::Datagram, flags, None) {
            Ok(socket) => socket,
            Err(Errno::EAFNOSUPPORT) => return Ok(None),
            Err(errno) => return Err(failed("socket")(errno)),
        };
        let set = |call, result: Result<(), Errno>| result.map_err(failed(call));
        if family == Family::V6 {
            set(
                "setsockopt IPV6_V6ONLY",
                setsockopt(&socket, sockopt::Ipv6V6Only, &true),
            )?;
        }
        set(
            "setsockopt SO_TIMESTAMPNS",
            setsockopt(&socket, sockopt::ReceiveTimestampns, &true),
        )?;
        set(
            "setsockopt SO_RXQ_OVFL",
            setsockopt(&socket, sockopt::RxqOvfl, &1),
        )?;
        // Without this a probe that this host's own queue drops counts as sent.
        let errors = match family {
            Family::V4 => setsockopt(&socket, sockopt::Ipv4RecvErr, &true),
            Family::V6 => setsockopt(&socket, sockopt::Ipv6RecvErr, &true),
        };
        set("setsockopt RECVERR", errors)?;
        let size = options.buffer;
        let receive = force_or(&socket, sockopt::RcvBufForce, sockopt::RcvBuf, size);
        set("setsockopt SO_RCVBUF", receive)?;
        let send = force_or(&socket, sockopt::SndBufForce, sockopt::SndBuf, size);
        set("setsockopt SO_SNDBUF", send)?;
        set(
            "bind",
            bind(socket.as_raw_fd(), &SockaddrStorage::from(any)),
        )?;
        Ok(Some(Self {
            family,
            socket,
            outgoing: Vec::with_capacity(SEND_BATCH),
            probes: Vec::with_capacity(SEND_BATCH),
            dropped: 0,
        }))
    }

    /// Hands all that arrived before `started` to the prober. What arrives meanwhile may wait, so
    /// that a flood does not keep rounds from beginning.
    pub(super) fn receive(
        &mut self,
        batch: &mut ReceiveBatch,
        stamps: &Stamps,
        started: Instant,
        prober: &mut Prober,
        stats: &mut SocketStats,
    ) -> Result<(), SocketError> {
        batch.discard_errors(self.socket.as_fd());
        loop {
            stats.receive_calls += 1;
            match batch.receive(self.socket.as_fd()) {
                Ok(()) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) if is_passing(errno) => continue,
                Err(errno) => {
                    return Err(SocketError::Receive {
                        family: self.family,
                        errno,
                    });
                }
            }
            let datagrams = batch.datagrams();
            let count = datagrams.len();
            stats.received += count as u64;
            let mut newest = None;
            for datagram in datagrams {
                let arrival = stamps.arrival(datagram.control.timestamp());
                if let Some(source) = datagram.source {
                    prober.handle_datagram(arrival, source, datagram.payload);
                }
                if let Some(dropped) = datagram.control.dropped() {
                    stats.overflowed += u64::from(dropped.wrapping_sub(self.dropped));
                    self.dropped = dropped;
                }
                newest = Some(arrival);
            }
            if count < mmsg::RECEIVE_BATCH || newest >= Some(started) {
                return Ok(());
            }
        }
    }

    /// Adds a probe to the next batch. Whether that is full now.
    pub(super) fn queue(&mut self, transmit: &Transmit) -> bool {
        self.outgoing.push(Outgoing {
            to: transmit.to.into(),
            payload: transmit.payload,
        });
        self.probes.push((transmit.target, transmit.sequence));
        self.outgoing.len() == SEND_BATCH
    }

    /// Sends the batch, past every probe that fails.
    pub(super) fn flush(&mut self, prober: &mut Prober, stats: &mut SocketStats) {
        let (mut done, mut retries) = (0, 0);
        while done < self.outgoing.len() {
            stats.send_calls += 1;
            match mmsg::send(self.socket.as_fd(), &self.outgoing[done..]) {
                Ok(sent) => {
                    stats.sent += sent as u64;
                    done += sent;
                    retries = 0;
                }
                Err(Errno::EINTR) => {}
                Err(errno) if is_networks_answer(errno) && retries < RETRIES => retries += 1,
                Err(errno) => {
                    if !is_networks_answer(errno) {
                        let (target, sequence) = self.probes[done];
                        prober.handle_refused(target, sequence);
                        stats.last_refusal = Some(errno);
                    }
                    done += 1;
                    retries = 0;
                }
            }
        }
        self.outgoing.clear();
        self.probes.clear();
    }
}

/// Sets a buffer's size beyond the system's limit if that is permitted, else up to it.
fn force_or<F, O>(socket: &OwnedFd, force: F, ordinary: O, size: usize) -> Result<(), Errno>
where
    F: SetSockOpt<Val = usize>,
    O: SetSockOpt<Val = usize>,
{
    match setsockopt(socket, force, &size) {
        Err(Errno::EPERM) => setsockopt(socket, ordinary, &size),
        other => other,
    }
}

/// Whether the network refused a probe, which is what probes are to find out, and not this host.
fn is_networks_answer(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EHOSTDOWN | Errno::ECONNREFUSED
    )
}

/// Whether a failed call is worth repeating at once: interrupted, or the refusal of an earlier
/// probe, which is reported once.
fn is_passing(errno: Errno) -> bool {
    errno == Errno::EINTR || is_networks_answer(errno)
}
