//! What ping prints.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use probe_ebpf::wire::probe::{self, AGENT_UP, DRAINING, LEASE_HELD, LOCAL_CHECKS_OK, NEVER};
use serde::Serialize;

use super::tally::{RoundTrips, Spread};
use crate::api::Agent;
use crate::cli::output::{self, Format};
use crate::cli::time::{ms, words};
use crate::health::State;

/// A reply to one probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) round_trip: Duration,
    /// T3 - T2. `None`: it read its clock once, as the kernel's reflector does, or not in a way
    /// that tells.
    pub(super) node_share: Option<Duration>,
    /// TTL or hop limit with which the probe arrived.
    pub(super) ttl: u8,
    /// What a Pulsepath node says of itself.
    pub(super) node: Option<probe::Answer>,
}

/// Probes of which no reply is to be expected, or more than one came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Oddities {
    pub(super) refused: u64,
    pub(super) duplicate: u64,
    pub(super) late: u64,
    pub(super) reordered: u64,
    /// Datagrams that are not valid replies.
    pub(super) invalid: u64,
}

/// Prints replies as they come, and the summary.
pub(super) struct Reporter {
    format: Format,
    colour: bool,
    name: String,
    to: SocketAddr,
    started: Instant,
    sent: u64,
    oddities: Oddities,
    round_trips: RoundTrips,
    incarnation: Option<u64>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Reply {
        seq: u64,
        from: SocketAddr,
        rtt_ms: f64,
        /// Absent: not measurable.
        node_ms: Option<f64>,
        ttl: u8,
        #[serde(flatten)]
        node: Option<NodeLine>,
    },
    Lost {
        seq: u64,
        to: SocketAddr,
    },
    Summary {
        name: &'a str,
        to: SocketAddr,
        sent: u64,
        received: u64,
        loss_percent: f64,
        duplicates: u64,
        late: u64,
        reordered: u64,
        refused: u64,
        invalid: u64,
        time_ms: f64,
        rtt_ms: Option<Spread>,
    },
}

#[derive(Serialize)]
struct NodeLine {
    state: State,
    agent: Agent,
    lease_ms: Option<u32>,
    tunnel_age_ms: Option<u32>,
    incarnation: String,
    incarnation_changed: bool,
}

impl Reporter {
    pub(super) fn new(format: Format, name: &str, to: SocketAddr) -> Self {
        let colour = format == Format::Text && output::use_colour();
        Self {
            format,
            colour,
            name: name.to_owned(),
            to,
            started: Instant::now(),
            sent: 0,
            oddities: Oddities::default(),
            round_trips: RoundTrips::default(),
            incarnation: None,
        }
    }

    /// Takes over how many probes were sent in all, refused ones not counted, and what else
    /// happened.
    pub(super) fn count(&mut self, sent: u64, oddities: Oddities) {
        self.sent = sent;
        self.oddities = oddities;
    }

    pub(super) fn reply(&mut self, reply: &Reply) -> io::Result<()> {
        self.round_trips.add(reply.round_trip);
        let incarnation = reply.node.map(|node| node.incarnation);
        let changed = self.incarnation.is_some() && self.incarnation != incarnation;
        self.incarnation = incarnation;
        if self.format == Format::Json {
            return output::print_json(&Line::Reply {
                seq: reply.number,
                from: self.to,
                rtt_ms: ms(reply.round_trip),
                node_ms: reply.node_share.map(ms),
                ttl: reply.ttl,
                node: reply.node.map(|node| NodeLine::new(&node, changed)),
            });
        }
        if changed {
            output::print(&format!(
                "{} has a new incarnation: its kernel state began anew (reboot or detach)",
                self.name
            ))?;
        }
        output::print(&self.describe(reply))
    }

    fn describe(&self, reply: &Reply) -> String {
        let state = reply.node.map_or(String::new(), |node| {
            let agent = agent(&node);
            let state = output::state(state(&agent), 0, self.colour);
            format!(" {state} ({})", agent_in_words(&agent))
        });
        let share = match reply.node_share {
            Some(share) => format!(" node={}", words(share)),
            None if reply.node.is_some() => " node=<1 µs".to_owned(),
            None => String::new(),
        };
        let lease = reply.node.map_or("", |node| match node.flags & LEASE_HELD {
            0 => " lease=none",
            _ => " lease=held",
        });
        format!(
            "reply from {}: seq={}{state} rtt={:.3} ms{share} ttl={}{lease}",
            self.to.ip(),
            reply.number,
            ms(reply.round_trip),
            reply.ttl,
        )
    }

    pub(super) fn lost(&self, number: u64) -> io::Result<()> {
        match self.format {
            Format::Json => output::print_json(&Line::Lost {
                seq: number,
                to: self.to,
            }),
            Format::Text => output::print(&format!("no reply from {}: seq={number}", self.to.ip())),
        }
    }

    /// Prints the summary. Whether there was any reply.
    pub(super) fn finish(&self) -> io::Result<bool> {
        let received = self.round_trips.count();
        let lost = self.sent.saturating_sub(received);
        let loss_percent = if self.sent == 0 {
            0.0
        } else {
            lost as f64 * 1e2 / self.sent as f64
        };
        match self.format {
            Format::Json => self.print_json_summary(received, loss_percent)?,
            Format::Text => self.print_summary(received, loss_percent)?,
        }
        Ok(received > 0)
    }

    fn print_json_summary(&self, received: u64, loss_percent: f64) -> io::Result<()> {
        let Oddities {
            refused,
            duplicate,
            late,
            reordered,
            invalid,
        } = self.oddities;
        output::print_json(&Line::Summary {
            name: &self.name,
            to: self.to,
            sent: self.sent,
            received,
            loss_percent,
            duplicates: duplicate,
            late,
            reordered,
            refused,
            invalid,
            time_ms: ms(self.started.elapsed()),
            rtt_ms: self.round_trips.spread(),
        })
    }

    fn print_summary(&self, received: u64, loss_percent: f64) -> io::Result<()> {
        let Oddities {
            refused,
            duplicate,
            late,
            reordered,
            invalid,
        } = self.oddities;
        let ip = self.to.ip();
        let name = match self.name == ip.to_string() {
            true => self.name.clone(),
            false => format!("{} ({ip})", self.name),
        };
        output::print(&format!("\n--- {name} ---"))?;
        let mut line = format!("{} sent, {received} received", self.sent);
        let odd = [
            (duplicate, "duplicate"),
            (late, "late"),
            (reordered, "reordered"),
            (refused, "refused by this host"),
            (invalid, "invalid"),
        ];
        for (count, what) in odd.into_iter().filter(|(count, _)| *count > 0) {
            line.push_str(&format!(", {count} {what}"));
        }
        let time = words(self.started.elapsed());
        output::print(&format!(
            "{line}, {}% loss, time {time}",
            percent(loss_percent)
        ))?;
        if let Some(Spread {
            min,
            avg,
            max,
            mdev,
        }) = self.round_trips.spread()
        {
            let spread = format!("{min:.3}/{avg:.3}/{max:.3}/{mdev:.3}");
            output::print(&format!("rtt min/avg/max/mdev = {spread} ms"))?;
        }
        Ok(())
    }
}

impl NodeLine {
    fn new(node: &probe::Answer, incarnation_changed: bool) -> Self {
        let agent = agent(node);
        Self {
            state: state(&agent),
            agent,
            lease_ms: (node.flags & LEASE_HELD != 0).then_some(node.lease_ms),
            tunnel_age_ms: (node.tunnel_age_ms != NEVER).then_some(node.tunnel_age_ms),
            incarnation: format!("{:016x}", node.incarnation),
            incarnation_changed,
        }
    }
}

/// A percentage with as many digits as it needs, up to four.
fn percent(percent: f64) -> String {
    let digits = format!("{percent:.4}");
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

fn agent(node: &probe::Answer) -> Agent {
    Agent {
        up: node.flags & AGENT_UP != 0,
        draining: node.flags & DRAINING != 0,
        checks_ok: node.flags & LOCAL_CHECKS_OK != 0,
        beat_age_ms: (node.beat_age_ms != NEVER).then_some(node.beat_age_ms),
    }
}

/// The state that the reply speaks for. A controller may know better.
fn state(agent: &Agent) -> State {
    if agent.up {
        State::Available
    } else {
        State::Unavailable
    }
}

fn agent_in_words(agent: &Agent) -> String {
    let mut words_of = Vec::new();
    words_of.push(if agent.up { "agent up" } else { "agent silent" }.to_owned());
    if agent.draining {
        words_of.push("draining".to_owned());
    }
    if !agent.checks_ok {
        words_of.push("local checks fail".to_owned());
    }
    words_of.push(match agent.beat_age_ms {
        Some(age) => format!("beat {} ago", words(Duration::from_millis(age.into()))),
        None => "no beat yet".to_owned(),
    });
    words_of.join(", ")
}
