//! What the tunnel counters have counted.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::text::{ago, heading};
use crate::kernel::{self, LinkKind, Peer, Traffic, Tunnels};
use crate::tunnels::{Ages, Limits, Verdict, judge};

/// Every tunnel that is remembered, those in use first.
#[derive(Debug, Serialize)]
pub(super) struct TunnelReport {
    /// How many programs count on devices, each one direction, besides a native XDP program.
    counting: usize,
    tunnels: Vec<Tunnel>,
}

/// What has been counted of a tunnel.
#[derive(Debug, Serialize)]
struct Tunnel {
    peer: IpAddr,
    encap: &'static str,
    vni: Option<u32>,
    /// By what this node alone can know.
    verdict: Verdict,
    received: Direction,
    sent: Direction,
}

#[derive(Debug, Serialize)]
struct Direction {
    packets: u64,
    bytes: u64,
    /// `None`: there has been none.
    last_seen_ms: Option<u64>,
}

impl TunnelReport {
    /// Reads what is pinned in `directory`.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let mut peers = Tunnels::open(directory)?.peers()?;
        peers.sort_by_key(|peer| Ages::from(peer).newest());
        let counts = |kind: LinkKind| kind.counts().is_some();
        let links = kernel::scan_links(directory)?;
        Ok(Self {
            counting: links.iter().filter(|link| counts(link.kind)).count(),
            tunnels: peers.iter().map(Tunnel::new).collect(),
        })
    }
}

impl Tunnel {
    fn new(peer: &Peer) -> Self {
        Self {
            peer: peer.address,
            encap: peer.encapsulation.label(),
            vni: peer.vni,
            verdict: judge(peer.into(), None, Limits::default()),
            received: Direction::new(&peer.received),
            sent: Direction::new(&peer.sent),
        }
    }
}

impl Direction {
    fn new(traffic: &Traffic) -> Self {
        Self {
            packets: traffic.packets,
            bytes: traffic.bytes,
            last_seen_ms: traffic.age.map(|age| age.as_millis() as u64),
        }
    }
}

/// The report, for people.
impl Display for TunnelReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.tunnels.is_empty() && self.counting == 0 {
            return writeln!(
                out,
                "tunnels are not counted: see the setting tunnels.enabled"
            );
        }
        heading(out, "tunnels", self.tunnels.is_empty())?;
        for it in &self.tunnels {
            let vni = it.vni.map(|vni| format!(" {vni}")).unwrap_or_default();
            let encap = format!("{}{vni}", it.encap);
            writeln!(
                out,
                "  {:<40} {encap:<16} {}",
                it.peer.to_string(),
                it.verdict.label()
            )?;
            direction(out, "received", &it.received)?;
            direction(out, "sent", &it.sent)?;
        }
        Ok(())
    }
}

fn direction(out: &mut Formatter<'_>, name: &str, it: &Direction) -> fmt::Result {
    let Some(age) = it.last_seen_ms else {
        return writeln!(out, "    {name:<9} never");
    };
    writeln!(
        out,
        "    {name:<9} {:>14} packets {:>18} bytes, last {}",
        it.packets,
        it.bytes,
        ago(age)
    )
}
