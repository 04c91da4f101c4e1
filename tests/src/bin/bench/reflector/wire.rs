//! Two namespaces and a veth between them: frames leave at one end, are answered at the other, and
//! are counted and dropped when they come back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::XdpMode;
use aya::programs::xdp::XdpLinkId;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use probe_ebpf::testing::probe_frame;
use pulsepath_tests::Netns;

use super::programs::Programs;

/// The sending end, in both namespaces' view.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The answering end.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const CLIENT_INTERFACE: &str = "client";
const SERVER_INTERFACE: &str = "server";
/// Frames in one call. A call sleeps about 20 ms for its setup, whatever it sends.
const CHUNK: u32 = 2_000_000;

/// The namespaces and their veth.
pub(super) struct Wire {
    pub(super) client: Netns,
    pub(super) server: Netns,
}

impl Wire {
    /// Addresses and MACs are those of the probe's frame.
    pub(super) fn new() -> Result<Self> {
        let wire = Self {
            client: Netns::new("bench-client")?,
            server: Netns::new("bench-server")?,
        };
        let frame = probe_frame().build();
        let (server_mac, client_mac) = (mac(&frame[..6]), mac(&frame[6..12]));
        let server = wire.server.name();
        let cpus = cpus()?;
        let queues = format!("numrxqueues {cpus} numtxqueues {cpus}");
        wire.client.ip_batch(&format!(
            "link add {CLIENT_INTERFACE} address {client_mac} {queues} type veth peer name {SERVER_INTERFACE} address {server_mac} {queues} netns {server}\n\
             address add {CLIENT}/24 dev {CLIENT_INTERFACE}\n\
             link set {CLIENT_INTERFACE} up\n"
        ))?;
        wire.server.ip_batch(&format!(
            "address add {SERVER}/24 dev {SERVER_INTERFACE}\n\
             link set {SERVER_INTERFACE} up\n\
             neighbour add {CLIENT} lladdr {client_mac} dev {SERVER_INTERFACE}\n"
        ))?;
        Ok(wire)
    }

    /// Answers per second of the reflector. It has every CPU, as the servers beside it have, and
    /// shares each with the sending and counting.
    pub(super) fn reflector_rate(
        &self,
        programs: &mut Programs,
        duration: Duration,
    ) -> Result<f64> {
        let mut reflector = programs.reflector()?;
        let answering = self
            .server
            .enter(|| reflector.attach(SERVER_INTERFACE, XdpMode::Driver))??;
        let counting = self.attach_sink(programs)?;
        let rate = self.rate(programs, duration, CHUNK, cpus()?)?;
        programs.bench_program("sink")?.detach(counting)?;
        reflector.detach(answering)?;
        Ok(rate)
    }

    /// Counts and drops what comes back to the client.
    pub(super) fn attach_sink(&self, programs: &mut Programs) -> Result<XdpLinkId> {
        let sink = programs.bench_program("sink")?;
        Ok(self
            .client
            .enter(|| sink.attach(CLIENT_INTERFACE, XdpMode::Driver))??)
    }

    /// Lets everything pass at the server: without a program there, nothing that XDP sends arrives.
    pub(super) fn attach_pass(&self, programs: &mut Programs) -> Result<XdpLinkId> {
        let pass = programs.bench_program("pass")?;
        Ok(self
            .server
            .enter(|| pass.attach(SERVER_INTERFACE, XdpMode::Driver))??)
    }

    /// Answers per second while the client sends for `duration`, `chunk` frames at a time, from the
    /// first `senders` CPUs.
    pub(super) fn rate(
        &self,
        programs: &Programs,
        duration: Duration,
        chunk: u32,
        senders: usize,
    ) -> Result<f64> {
        let (start, before) = (Instant::now(), programs.sunk()?);
        std::thread::scope(|scope| {
            let send = |cpu| {
                move || {
                    self.client
                        .enter(|| send(programs, start, duration, chunk, cpu))
                }
            };
            let senders: Vec<_> = (0..senders).map(|cpu| scope.spawn(send(cpu))).collect();
            senders
                .into_iter()
                .try_for_each(|sender| match sender.join() {
                    Ok(outcome) => outcome?,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })?;
        let answers = programs.sunk()? - before;
        ensure!(answers > 0, "nothing came back");
        Ok(answers as f64 / start.elapsed().as_secs_f64())
    }
}

fn send(
    programs: &Programs,
    start: Instant,
    duration: Duration,
    chunk: u32,
    cpu: usize,
) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    let index = nix::net::if_::if_nametoindex(CLIENT_INTERFACE)
        .context("look up the client's interface")?;
    while start.elapsed() < duration {
        programs.send(index, chunk)?;
    }
    Ok(())
}

fn cpus() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

fn mac(bytes: &[u8]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.join(":")
}
