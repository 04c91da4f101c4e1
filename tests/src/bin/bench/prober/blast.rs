//! The same probes without a prober: the least that a program can do about them.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use probe_ebpf::wire::PROBE_PORT;
use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::probe::{PROBE_LEN, Request};

use super::field::{Field, address, pin_to_one_cpu};

/// Datagrams in one system call, and in flight at most.
const BATCH: usize = 64;
/// Nodes that are probed in turn.
const NODES: usize = 20_000;
const SOCKET_BUFFER: usize = 8 << 20;

/// Answered probes per second: a batch is sent, and read back, and so on.
pub(super) fn rate(field: &Field, duration: Duration) -> Result<f64> {
    let socket = field.prober.enter(bind)??;
    std::thread::scope(|scope| {
        let blasting = scope.spawn(|| {
            pin_to_one_cpu()?;
            blast(field, &socket, duration)
        });
        blasting
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn bind() -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind the bare loop")?;
    setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER)?;
    setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER)?;
    Ok(socket)
}

fn probe(field: &Field) -> [u8; PROBE_LEN] {
    let request = Request {
        sequence: 1,
        timestamp: NtpTime::default(),
        error_estimate: UNKNOWN_ERROR,
        ssid: 0,
        flags: 0,
        key_id: field.keys().current().id,
        lease_ms: 0,
        node_id: field.node(),
        epoch_floor: 0,
        incarnation: 0,
        node_time: 0,
        prober: 0,
    };
    request.encode(&field.keys().current().sip()).to_bytes()
}

fn blast(field: &Field, socket: &UdpSocket, duration: Duration) -> Result<f64> {
    let payload = probe(field);
    let nodes: Vec<Option<SockaddrStorage>> = (0..NODES)
        .map(|index| {
            let ip: IpAddr = address(index as u32);
            Some(SockaddrStorage::from(SocketAddr::new(ip, PROBE_PORT)))
        })
        .collect();
    let (start, mut answered) = (Instant::now(), 0);
    for batch in nodes.chunks_exact(BATCH).cycle() {
        send(socket, &payload, batch)?;
        answered += receive(socket)?;
        if start.elapsed() >= duration {
            break;
        }
    }
    Ok(answered as f64 / start.elapsed().as_secs_f64())
}

fn send(
    socket: &UdpSocket,
    payload: &[u8; PROBE_LEN],
    to: &[Option<SockaddrStorage>],
) -> Result<()> {
    let slices = [[IoSlice::new(payload)]; BATCH];
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    sendmmsg(
        socket.as_raw_fd(),
        &mut headers,
        &slices,
        to,
        [],
        MsgFlags::empty(),
    )
    .context("sendmmsg of the bare loop")?;
    Ok(())
}

/// Reads what there is.
fn receive(socket: &UdpSocket) -> Result<usize> {
    let mut buffers = [[0; PROBE_LEN]; BATCH];
    let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    match recvmmsg(
        socket.as_raw_fd(),
        &mut headers,
        &mut slices,
        MsgFlags::MSG_DONTWAIT,
        None,
    ) {
        Ok(received) => Ok(received.count()),
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(errno).context("recvmmsg of the bare loop"),
    }
}
