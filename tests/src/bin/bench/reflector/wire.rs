//! Two namespaces and a veth between them: frames leave at one end, are answered at the other, and
//! are counted and dropped when they come back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::XdpMode;
use aya::programs::xdp::XdpLinkId;
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
        wire.client.ip_batch(&format!(
            "link add {CLIENT_INTERFACE} address {client_mac} type veth peer name {SERVER_INTERFACE} address {server_mac} netns {server}\n\
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

    /// Answers per second of the reflector. Sending, answering and counting share one CPU.
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
        let rate = self.rate(programs, duration, CHUNK)?;
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

    /// Answers per second while the client sends for `duration`, `chunk` frames at a time.
    pub(super) fn rate(&self, programs: &Programs, duration: Duration, chunk: u32) -> Result<f64> {
        self.client.enter(|| {
            let index = nix::net::if_::if_nametoindex(CLIENT_INTERFACE)
                .context("look up the client's interface")?;
            let (start, before) = (Instant::now(), programs.sunk()?);
            while start.elapsed() < duration {
                programs.send(index, chunk)?;
            }
            let answers = programs.sunk()? - before;
            ensure!(answers > 0, "nothing came back");
            Ok(answers as f64 / start.elapsed().as_secs_f64())
        })?
    }
}

fn mac(bytes: &[u8]) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.join(":")
}
