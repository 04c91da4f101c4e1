//! A user-space UDP echo, as good as one socket and one thread make it.

use std::io::IoSliceMut;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt,
};
use nix::unistd::Pid;
use probe_ebpf::wire::PROBE_PORT;
use probe_ebpf::wire::probe::PROBE_LEN;

use super::programs::Programs;
use super::wire::{SERVER, Wire};

/// Datagrams in one system call.
const BATCH: usize = 64;
/// Frames sent at once; the socket's buffer holds them while the thread works them off. The best
/// of these rates counts, so that the echo is neither idle nor flooded.
const CHUNKS: [u32; 6] = [5_000, 10_000, 15_000, 20_000, 30_000, 50_000];
const SOCKET_BUFFER: usize = 256 << 20;

/// Echoes per second. Sending and receiving are one CPU's work, echoing is the other's.
pub(super) fn rate(wire: &Wire, programs: &mut Programs, duration: Duration) -> Result<f64> {
    let passing = wire.attach_pass(programs)?;
    let counting = wire.attach_sink(programs)?;
    let socket = wire.server.enter(bind)??;
    let stop = AtomicBool::new(false);
    let rate = std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&socket, &stop));
        let best = CHUNKS.iter().try_fold(0.0, |best: f64, chunk| {
            Ok(best.max(wire.rate(programs, duration / CHUNKS.len() as u32, *chunk, 1)?))
        });
        stop.store(true, Ordering::Relaxed);
        match echo.join() {
            Ok(outcome) => outcome.and(best),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    programs.bench_program("sink")?.detach(counting)?;
    programs.bench_program("pass")?.detach(passing)?;
    Ok(rate)
}

fn bind() -> Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(SERVER, PROBE_PORT)).context("bind the echo")?;
    setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER)?;
    setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER)?;
    // So that the thread sees when it has to stop.
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(socket)
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) -> Result<()> {
    let mut last_cpu = CpuSet::new();
    last_cpu.set(std::thread::available_parallelism()?.get() - 1)?;
    sched_setaffinity(Pid::from_raw(0), &last_cpu)?;
    let mut buffers = [[0; PROBE_LEN]; BATCH];
    let mut received = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let mut sent = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    while !stop.load(Ordering::Relaxed) {
        let mut slices: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| [IoSliceMut::new(buffer)])
            .collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        let addresses: Vec<_> =
            match recvmmsg(socket.as_raw_fd(), &mut received, &mut slices, flags, None) {
                Ok(messages) => messages.map(|message| message.address).collect(),
                Err(nix::errno::Errno::EAGAIN) => continue,
                Err(error) => return Err(error).context("recvmmsg"),
            };
        let slices: Vec<_> = buffers[..addresses.len()]
            .iter()
            .map(|buffer| [std::io::IoSlice::new(buffer)])
            .collect();
        sendmmsg(
            socket.as_raw_fd(),
            &mut sent,
            &slices,
            &addresses,
            [],
            MsgFlags::empty(),
        )
        .context("sendmmsg")?
        .for_each(drop);
    }
    Ok(())
}
