//! What is known of one node, for readers on other threads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use probe_ebpf::wire::probe::{AGENT_UP, Answer, DRAINING, LEASE_HELD, LOCAL_CHECKS_OK, NEVER};

use super::Reading;
use super::keys::KeyView;
use crate::api::{self, Timestamp, milliseconds};
use crate::health::{Reason, State};

/// The condition of a node that others hear, and the controller does not.
const PATH_DOWN: &str = "ControllerPathDown";

/// The condition of a node that nobody hears, while its tunnels are busy, or were.
const ONLY_TUNNELS: &str = "TunnelsOnly";

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// For people and selectors.
    pub labels: BTreeMap<String, String>,
    /// Its state.
    pub state: State,
    /// Why it is in that state.
    pub reason: Reason,
    /// When it got into that state.
    pub since: SystemTime,
    /// Its incarnation, as last heard or recorded.
    pub incarnation: Option<u64>,
    /// When its last reply of any kind arrived.
    pub heard: Option<Instant>,
    /// When it was last heard by others while the controller did not hear it.
    pub witnessed: Option<Instant>,
    /// By whom, the last one first.
    pub witnesses: Vec<String>,
    /// The controller does not hear it, but others do.
    pub path_down: bool,
    /// What others last received from its tunnels while nobody heard it.
    pub tunnel_packet: Option<TunnelPacket>,
    /// Nobody hears it, and it keeps its state so long at most, since its tunnels are busy.
    pub kept_until: Option<Instant>,
    /// How long replies took.
    pub round_trips: Option<RoundTrips>,
    /// Probes without a reply since monitoring began.
    pub lost: u64,
    /// What the last reply says of the agent.
    pub agent: Option<api::Agent>,
    /// When it last received a packet of a tunnel, by its last reply; `None`: never, or it counts none.
    pub tunnelled: Option<Instant>,
    /// Until when its lease is held, by its last reply; `None`: it holds none.
    pub lease_until: Option<Instant>,
    /// Where it is probed.
    pub addresses: Vec<AddressView>,
    /// Its keys.
    pub keys: KeyView,
    /// What is wrong with how it is configured, if anything.
    pub problem: Option<String>,
    /// Why it is not probed, if it should be.
    pub not_probed: Option<String>,
    outcomes: Outcomes,
}

/// A packet from a node's tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelPacket {
    /// When it was received.
    pub at: Instant,
    /// By whom.
    pub by: String,
}

/// One address of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressView {
    /// The address.
    pub address: IpAddr,
    /// When its last reply arrived.
    pub heard: Option<Instant>,
}

/// Round-trip times since monitoring began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// The last.
    pub last: Duration,
    /// Moving average; each new one weighs 1/8.
    pub average: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl RoundTrips {
    fn first(time: Duration) -> Self {
        Self {
            last: time,
            average: time,
            min: time,
            max: time,
        }
    }

    fn and(self, time: Duration) -> Self {
        Self {
            last: time,
            average: (self.average * 7 + time) / 8,
            min: self.min.min(time),
            max: self.max.max(time),
        }
    }
}

/// Whether the last 64 probes were answered, the newest in the lowest bit.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    answered: u64,
    count: u32,
}

impl Outcomes {
    fn push(&mut self, answered: bool) {
        self.answered = self.answered << 1 | u64::from(answered);
        self.count = (self.count + 1).min(u64::BITS);
    }

    /// Share of lost ones.
    fn loss(&self) -> Option<f64> {
        let lost = self.count - self.answered.count_ones();
        (self.count > 0).then(|| f64::from(lost) / f64::from(self.count))
    }
}

impl NodeView {
    /// A node that is not monitored.
    pub fn new(name: String, now: SystemTime) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            state: State::Unknown,
            reason: Reason::NotMonitored,
            since: now,
            incarnation: None,
            heard: None,
            witnessed: None,
            witnesses: Vec::new(),
            path_down: false,
            tunnel_packet: None,
            kept_until: None,
            round_trips: None,
            lost: 0,
            agent: None,
            tunnelled: None,
            lease_until: None,
            addresses: Vec::new(),
            keys: KeyView::default(),
            problem: None,
            not_probed: None,
            outcomes: Outcomes::default(),
        }
    }

    /// Replaces the addresses; what is known of those that stay is kept.
    pub(super) fn set_addresses(&mut self, addresses: &[IpAddr]) {
        let known = std::mem::take(&mut self.addresses);
        let heard = |address| {
            known
                .iter()
                .find(|k| k.address == address)
                .and_then(|k| k.heard)
        };
        let view = |&address| AddressView {
            address,
            heard: heard(address),
        };
        self.addresses = addresses.iter().map(view).collect();
    }

    /// Notes a reply. `newest`: no later one has been noted before.
    pub(super) fn note_reply(
        &mut self,
        at: Instant,
        round_trip: Duration,
        from: IpAddr,
        answer: &Answer,
        newest: bool,
    ) {
        self.outcomes.push(true);
        self.heard = self.heard.max(Some(at));
        self.tunnel_packet = None;
        if let Some(view) = self.addresses.iter_mut().find(|view| view.address == from) {
            view.heard = view.heard.max(Some(at));
        }
        self.round_trips = Some(match self.round_trips {
            Some(known) => known.and(round_trip),
            None => RoundTrips::first(round_trip),
        });
        if newest {
            self.incarnation = Some(answer.incarnation);
            self.agent = Some(agent(answer));
            let tunnelled = Duration::from_millis(answer.tunnel_age_ms.into());
            let counts = answer.tunnel_age_ms != NEVER;
            self.tunnelled = counts.then(|| at.checked_sub(tunnelled)).flatten();
            let left = Duration::from_millis(answer.lease_ms.into());
            self.lease_until = (answer.flags & LEASE_HELD != 0).then(|| at + left);
        }
    }

    /// Notes that others heard it.
    pub(super) fn note_witnesses(&mut self, at: Instant, witnesses: Vec<String>) {
        self.witnessed = self.witnessed.max(Some(at));
        self.witnesses = witnesses;
    }

    /// Notes that somebody received a packet from its tunnels.
    pub(super) fn note_tunnel_packet(&mut self, at: Instant, by: String) {
        if self.tunnel_packet.as_ref().is_none_or(|it| it.at <= at) {
            self.tunnel_packet = Some(TunnelPacket { at, by });
        }
    }

    pub(super) fn note_loss(&mut self) {
        self.outcomes.push(false);
        self.lost += 1;
    }

    /// Forgets what probing found: it has ended.
    pub(super) fn forget(&mut self, reason: Reason) {
        self.reason = reason;
        self.incarnation = None;
        self.heard = None;
        self.witnessed = None;
        self.witnesses.clear();
        self.path_down = false;
        self.tunnel_packet = None;
        self.kept_until = None;
        self.round_trips = None;
        self.lost = 0;
        self.agent = None;
        self.tunnelled = None;
        self.lease_until = None;
        self.outcomes = Outcomes::default();
        self.not_probed = None;
        for address in &mut self.addresses {
            address.heard = None;
        }
    }

    /// The node as the HTTP interface shows it. An address counts as answering if it did within
    /// `timeout`.
    pub fn to_api(&self, now: Reading, timeout: Duration) -> api::Node {
        let ago = |at: Instant| now.instant.saturating_duration_since(at);
        let address = |view: &AddressView| api::Address {
            address: view.address,
            answering: view.heard.is_some_and(|at| ago(at) <= timeout),
            last_reply_ago_ms: view.heard.map(ago).map(milliseconds),
        };
        api::Node {
            name: self.name.clone(),
            state: self.state,
            since: Timestamp(self.since),
            reason: self.reason,
            last_reply_ago_ms: self.heard.map(ago).map(milliseconds),
            round_trip: self.round_trips.map(|times| api::RoundTrip {
                last: times.last.as_secs_f64(),
                average: times.average.as_secs_f64(),
                min: times.min.as_secs_f64(),
                max: times.max.as_secs_f64(),
            }),
            loss: self.outcomes.loss(),
            agent: self.agent,
            tunnel_age_ms: self.tunnelled.map(ago).map(milliseconds),
            lease_left_ms: self.lease_left(now.instant).map(milliseconds),
            incarnation: self.incarnation.map(|number| format!("{number:016x}")),
            addresses: self.addresses.iter().map(address).collect(),
            labels: self.labels.clone(),
            keys: self.keys.to_api(),
            conditions: self.conditions(now.instant),
        }
    }

    /// How much longer its lease lasts, unless it is extended; `None`: it holds none.
    pub fn lease_left(&self, now: Instant) -> Option<Duration> {
        let left = self.lease_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// What deserves attention about it, whatever its state.
    pub fn conditions(&self, now: Instant) -> Vec<api::Condition> {
        let named = [
            ("BadConfiguration", self.problem.clone()),
            ("NotProbed", self.not_probed.clone()),
            ("KeyNotConfirmed", self.keys.missing()),
            (PATH_DOWN, self.path_down.then(|| self.describe_path(now))),
            (ONLY_TUNNELS, self.describe_tunnels(now)),
        ];
        let condition = |(name, message): (&str, Option<String>)| {
            Some(api::Condition {
                name: name.to_owned(),
                message: message?,
            })
        };
        named.into_iter().filter_map(condition).collect()
    }

    fn describe_path(&self, now: Instant) -> String {
        let (last, witnessed) = (ago(now, self.heard), ago(now, self.witnessed));
        let by = self.witnesses.join(", ");
        format!("last heard by the controller {last}, by {by} {witnessed}: it keeps its state")
    }

    fn describe_tunnels(&self, now: Instant) -> Option<String> {
        let given_up = self.state == State::Unreachable && self.reason == Reason::TunnelsOnly;
        let so = match self.kept_until {
            Some(until) => {
                let left = until.saturating_duration_since(now).as_secs_f64();
                format!("it keeps its state for {left:.1} s more at most")
            }
            None if given_up => "that won it some time before it was given up".to_owned(),
            None => return None,
        };
        let TunnelPacket { at, by } = self.tunnel_packet.as_ref()?;
        let heard = ago(now, self.heard.max(self.witnessed));
        let received = ago(now, Some(*at));
        Some(format!(
            "last heard by anybody {heard}, but its tunnels were busy: {by} received a packet from \
             them {received}; {so}"
        ))
    }
}

fn ago(now: Instant, at: Option<Instant>) -> String {
    match at {
        Some(at) => format!(
            "{:.1} s ago",
            now.saturating_duration_since(at).as_secs_f64()
        ),
        None => "never".to_owned(),
    }
}

fn agent(answer: &Answer) -> api::Agent {
    api::Agent {
        up: answer.flags & AGENT_UP != 0,
        draining: answer.flags & DRAINING != 0,
        checks_ok: answer.flags & LOCAL_CHECKS_OK != 0,
        beat_age_ms: (answer.beat_age_ms != NEVER).then_some(answer.beat_age_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_that_of_the_last_64_probes() {
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.loss(), None);
        outcomes.push(false);
        assert_eq!(outcomes.loss(), Some(1.0));
        outcomes.push(true);
        assert_eq!(outcomes.loss(), Some(0.5));
        for _ in 0..63 {
            outcomes.push(true);
        }
        assert_eq!(outcomes.loss(), Some(0.0));
    }

    #[test]
    fn an_address_that_stays_keeps_when_it_was_heard() {
        let now = Reading::take();
        let [kept, gone, new]: [IpAddr; 3] =
            ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|text| text.parse().unwrap());
        let mut view = NodeView::new("n1".to_owned(), now.wall);
        view.set_addresses(&[kept, gone]);
        view.addresses[0].heard = Some(now.instant);
        view.set_addresses(&[new, kept]);
        let heard = Some(now.instant);
        let expected = [
            AddressView {
                address: new,
                heard: None,
            },
            AddressView {
                address: kept,
                heard,
            },
        ];
        assert_eq!(view.addresses, expected);
    }
}
