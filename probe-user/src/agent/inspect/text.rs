//! The report for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::time::Duration;

use super::lease::{Device, FenceReport, Lease};
use super::report::{Agent, Node, Report};
use super::witness::Witness;
use crate::egress::Found;

/// Most probers that are listed.
const MAX_PROBERS: usize = 20;

/// A report, shown for people.
pub(super) struct Text<'a>(pub(super) &'a Report);

impl Display for Text<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        node(out, &report.node)?;
        line(out, "pins", &report.directory)?;
        line(out, "agent", agent(&report.agent))?;
        line(out, "checks", report.agent.checks)?;
        line(out, "keys", list(&report.keys))?;
        heading(out, "attached", report.attachments.is_empty())?;
        for it in &report.attachments {
            let (mode, link) = (it.mode.to_string(), it.link_id);
            writeln!(
                out,
                "  {:<16} {mode:<12} {} (link {link})",
                it.interface, it.reason
            )?;
        }
        let counters: Vec<_> = report.counters.iter().filter(|it| it.packets > 0).collect();
        heading(out, "packets", counters.is_empty())?;
        for it in &counters {
            writeln!(out, "  {:<20} {:>12}", it.outcome, it.packets)?;
        }
        let zero = report.counters.len() - counters.len();
        writeln!(out, "  ({zero} other outcomes: 0)")?;
        heading(out, "probers", report.probers.is_empty())?;
        for it in report.probers.iter().take(MAX_PROBERS) {
            let (seen, address) = (ago(it.last_seen_ms), it.address.to_string());
            writeln!(
                out,
                "  {address:<40} port {:<6} {:>10} probes, last {seen}",
                it.port, it.probes
            )?;
        }
        if let Some(more) = report
            .probers
            .len()
            .checked_sub(MAX_PROBERS)
            .filter(|&more| more > 0)
        {
            writeln!(out, "  and {more} more: see --output json")?;
        }
        egress_ips(out, &report.egress_ips)?;
        lease(out, &report.lease)?;
        fence(out, &report.fence)?;
        witness(out, report.witness.as_ref())
    }
}

fn witness(out: &mut Formatter<'_>, witness: Option<&Witness>) -> fmt::Result {
    heading(out, "witness of others", witness.is_none())?;
    let Some(witness) = witness else {
        return Ok(());
    };
    write!(out, "  instance {}, ", witness.instance)?;
    match &witness.duty {
        Some(duty) => writeln!(
            out,
            "duty {}: probes every {} ms at port {}, votes for leases of {} ms",
            duty.version, duty.period_ms, duty.port, duty.lease_ms
        )?,
        None => writeln!(out, "without a duty")?,
    }
    for it in witness.duty.iter().flat_map(|duty| &duty.nodes) {
        let (addresses, floor) = (list(&it.addresses), it.floor);
        let votes = if it.votes {
            format!("votes as of epoch {floor}")
        } else {
            "only listens to it".to_owned()
        };
        writeln!(out, "  {:<16} {votes}, at {addresses}", it.node)?;
    }
    if witness.former_nodes > 0 {
        let former = witness.former_nodes;
        writeln!(out, "  ({former} promises about other nodes are kept)")?;
    }
    Ok(())
}

fn lease(out: &mut Formatter<'_>, lease: &Lease) -> fmt::Result {
    heading(out, "lease", false)?;
    let state = match (lease.held, lease.ended_ms) {
        (true, _) => format!("held for another {} ms", lease.remaining_ms),
        (false, Some(ended)) => format!("LAPSED, ended {}", ago(ended)),
        (false, None) if lease.limit_ms == 0 => "none, and none would be granted".to_owned(),
        (false, None) => "none yet".to_owned(),
    };
    writeln!(
        out,
        "  {state}; limit {} ms, {} renewals, {} votes, {} lapses",
        lease.limit_ms, lease.renewals, lease.votes, lease.lapses
    )?;
    for it in &lease.witnesses {
        let heard = it.heard_ms.map_or_else(
            || "has not voted".to_owned(),
            |age| format!("heard it {}", ago(age)),
        );
        writeln!(out, "  witness {} (slot {}) {heard}", it.instance, it.slot)?;
    }
    Ok(())
}

fn fence(out: &mut Formatter<'_>, fence: &FenceReport) -> fmt::Result {
    heading(out, "fence", fence.devices.is_empty())?;
    for it in &fence.devices {
        match it {
            Device::Fenced(it) => writeln!(out, "  {:<16} {}", it.device, it.hook)?,
            Device::NotFenced(it) => {
                writeln!(out, "  {:<16} NOT FENCED: {}", it.device, it.reason)?
            }
        }
    }
    heading(out, "guarded", fence.guards.is_empty())?;
    for (address, guard) in &fence.guards {
        writeln!(out, "  {:<40} {guard}", address.to_string())?;
    }
    let counted = fence.counters.iter().filter(|it| it.packets > 0);
    for it in counted {
        writeln!(out, "  {:<20} {:>12}", it.outcome, it.packets)?;
    }
    Ok(())
}

fn egress_ips(out: &mut Formatter<'_>, egress_ips: &BTreeMap<IpAddr, Found>) -> fmt::Result {
    heading(out, "egress IPs", egress_ips.is_empty())?;
    for (address, it) in egress_ips {
        let place = if it.interfaces.is_empty() {
            "MISSING".to_owned()
        } else {
            it.interfaces.join(", ")
        };
        let gateway = it.gateway.as_deref().unwrap_or("(not assigned any more)");
        let (address, sources) = (address.to_string(), list(&it.sources));
        writeln!(
            out,
            "  {address:<40} {place:<16} gateway {gateway}, sources {sources}"
        )?;
    }
    Ok(())
}

fn line(out: &mut Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(out, "{name:<12} {value}")
}

pub(super) fn heading(out: &mut Formatter<'_>, name: &str, is_empty: bool) -> fmt::Result {
    writeln!(out, "\n{name}{}", if is_empty { ": none" } else { "" })
}

fn list<T: Display>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn node(out: &mut Formatter<'_>, node: &Node) -> fmt::Result {
    let name = node.name.as_deref().unwrap_or("(not this host's name)");
    line(out, "node", format!("{name}, id {}", node.id))?;
    line(out, "incarnation", &node.incarnation)?;
    line(
        out,
        "addresses",
        format!("{}, port {}", list(&node.addresses), node.probe_port),
    )?;
    if node.plain_stamp {
        line(out, "plain STAMP", format!("from {}", list(&node.sources)))?;
    }
    if let Some(port) = node.sbfd_port {
        line(
            out,
            "S-BFD",
            format!("port {port}, from {}", list(&node.sources)),
        )?;
    }
    Ok(())
}

/// The agent's state as a sentence.
fn agent(agent: &Agent) -> String {
    let Some(age) = agent.beat_age_ms else {
        return "has never beaten: probers see it as down".to_owned();
    };
    let beat = format!("last beat {}", ago(age));
    match (agent.state, agent.up) {
        ("draining", up) => {
            let rest = if up {
                "its last beat still counts"
            } else {
                "down"
            };
            format!("was asked to stop, {beat}: {rest}")
        }
        (_, true) => format!("up, {beat}, counts for another {} ms", agent.deadline_in_ms),
        (_, false) => format!("DOWN, {beat}: probers see it as down"),
    }
}

pub(super) fn ago(millis: u64) -> String {
    // Finer than a second only where it says something.
    let shown = if millis < 10_000 {
        millis
    } else {
        millis / 1000 * 1000
    };
    format!(
        "{} ago",
        humantime::format_duration(Duration::from_millis(shown))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: &'static str, up: bool, beat_age_ms: Option<u64>) -> String {
        agent(&Agent {
            state,
            up,
            beat_age_ms,
            deadline_in_ms: 400,
            checks: "none",
        })
    }

    #[test]
    fn the_agents_state_is_said_in_words() {
        assert_eq!(
            state("running", true, Some(100)),
            "up, last beat 100ms ago, counts for another 400 ms"
        );
        assert_eq!(
            state("running", false, Some(61_234)),
            "DOWN, last beat 1m 1s ago: probers see it as down"
        );
        assert!(state("absent", false, None).contains("never"));
        assert!(state("draining", true, Some(5)).contains("asked to stop"));
    }
}
