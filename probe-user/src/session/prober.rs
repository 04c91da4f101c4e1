//! The core.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_ebpf::siphash::{self, SipKey};
use probe_ebpf::wire::probe::{Reply, ReplyError};

use super::clock::WallClock;
use super::registry::{Handle, Registry};
use super::renewal::Renewal;
use super::schedule::Schedule;
use super::stats::Rejection;
use super::target::{Queued, TargetState};
use super::{Event, ProbeSettings, ProberStats, Target, TargetError, TargetId, Transmit};

/// Probes targets in rounds: one probe to each address of a target per period.
///
/// Rounds of different targets are spread evenly over the period, and each keeps its phase
/// whatever comes, goes or is late. A round that is late by a period or more is not made up for:
/// it is left out, and excused in the target's next [`Event::Round`].
///
/// Handle every datagram that can be read before [`poll`](Self::poll), so that a target is not
/// judged while its reply lies waiting.
pub struct Prober {
    settings: ProbeSettings,
    /// Where first sequence numbers come from.
    sequences: SipKey,
    inserted: u64,
    registry: Registry,
    schedule: Schedule,
    wall: WallClock,
    transmits: VecDeque<(Handle, Queued)>,
    events: VecDeque<Event>,
    stats: ProberStats,
    /// When the right to extend leases ends, if it does.
    entitled: Option<Instant>,
}

impl Prober {
    /// A prober without targets. `seed` makes its sequence numbers unlike those of any other:
    /// take it from a good source.
    ///
    /// # Panics
    ///
    /// If the period is zero.
    pub fn new(settings: ProbeSettings, seed: u64) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            settings,
            sequences: SipKey::from_bytes(&key),
            inserted: 0,
            registry: Registry::default(),
            schedule: Schedule::new(settings.period),
            wall: WallClock::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            stats: ProberStats::default(),
            entitled: None,
        }
    }

    /// Adds a target, whose first round is due within a period; or gives one that is there new
    /// addresses and keys. Then its phase, and what is known of the node, stay, unless it is now
    /// another node.
    ///
    /// # Errors
    ///
    /// If an address is another target's, or not that of one host. Nothing is changed then.
    pub fn insert(
        &mut self,
        now: Instant,
        id: TargetId,
        target: Target,
    ) -> Result<(), TargetError> {
        let addresses = distinct_addresses(&target.addresses)?;
        self.registry.check(id, &addresses)?;
        match self.registry.find(id) {
            Some(handle) => {
                let sequence = self.first_sequence();
                self.registry.update(handle, |state| {
                    if state.is_node(target.node) {
                        state.replace(&target, &addresses);
                    } else {
                        *state = TargetState::new(id, &target, &addresses, sequence);
                    }
                });
            }
            None => {
                let sequence = self.first_sequence();
                let state = TargetState::new(id, &target, &addresses, sequence);
                let handle = self.registry.add(state);
                self.schedule.add(now, handle);
            }
        }
        Ok(())
    }

    fn first_sequence(&mut self) -> u32 {
        self.inserted += 1;
        siphash::hash_bytes(&self.sequences, &self.inserted.to_le_bytes()) as u32
    }

    /// Ends the probing of a target. What is on its way from it is not expected any more.
    pub fn remove(&mut self, id: TargetId) {
        self.registry.remove(id);
    }

    /// From a target's next probe on, has its probes extend the node's lease, or no longer.
    ///
    /// Returns when the newest reply arrived that a probe before echoed while it extended the lease;
    /// `None`: none did, or there is no such target. Whatever those probes still do, by it the lease
    /// lasts no longer than its time from then on.
    pub fn set_renewal(&mut self, id: TargetId, renewal: Option<Renewal>) -> Option<Instant> {
        let handle = self.registry.find(id)?;
        self.registry.get_mut(handle)?.set_renewal(renewal)
    }

    /// Has no probe extend a lease by a reply that arrives at `until` or later; `None`: there is no
    /// such end. It holds for all targets, and is looked at for each probe: whoever sets it in time is
    /// safe, however late its next word comes.
    pub fn entitle(&mut self, until: Option<Instant>) {
        self.entitled = until;
    }

    /// Ties wall time (since the Unix epoch) to the monotonic clock, for the timestamps in
    /// probes. Set it now and then, as clocks drift. No decision depends on it.
    pub fn set_wall_clock(&mut self, now: Instant, unix: Duration) {
        self.wall.set(now, unix);
    }

    /// Handles a datagram that arrived at `received`.
    pub fn handle_datagram(&mut self, received: Instant, source: SocketAddr, payload: &[u8]) {
        match self.match_reply(received, source, payload) {
            Ok(event) => {
                self.stats.answered += 1;
                self.events.push_back(event);
            }
            Err(rejection) => self.stats.count(rejection),
        }
    }

    fn match_reply(
        &mut self,
        received: Instant,
        source: SocketAddr,
        payload: &[u8],
    ) -> Result<Event, Rejection> {
        let from = source.ip().to_canonical();
        let handle = self
            .registry
            .find_address(from)
            .ok_or(Rejection::UnexpectedSource)?;
        let target = self
            .registry
            .get_mut(handle)
            .ok_or(Rejection::UnexpectedSource)?;
        if source.port() != self.settings.port {
            return Err(Rejection::UnexpectedSource);
        }
        let reply = Reply::decode(payload, |node, id| target.key(node, id));
        let reply = reply.map_err(|error| match error {
            ReplyError::NotOurs | ReplyError::IsRequest => Rejection::Foreign,
            ReplyError::WrongMac => Rejection::Forged,
        })?;
        let (sent, at) = target.window.answer(
            reply.sequence,
            reply.sender_timestamp,
            from,
            received,
            self.settings.reply_window,
        )?;
        let newest = target.note(at, from, &reply.answer)?;
        let target = target.id;
        Ok(Event::Reply {
            target,
            at,
            round_trip: at - sent,
            reply,
            from,
            newest,
        })
    }

    /// Takes note that the socket refused to send a probe for a reason of this host, not of the
    /// network. A round of which every probe was refused is excused.
    pub fn handle_refused(&mut self, id: TargetId, sequence: u32) {
        let target = self
            .registry
            .find(id)
            .and_then(|handle| self.registry.get_mut(handle));
        if target.is_some_and(|target| target.refuse(sequence)) {
            self.stats.refused += 1;
        }
    }

    /// Begins the rounds that are due.
    pub fn poll(&mut self, now: Instant) {
        while let Some(due) = self
            .schedule
            .take_due(now, |handle| self.registry.has(handle))
        {
            self.stats.lag.observe(due.lag);
            if due.missed == 0 {
                self.begin_round(now, due.at, due.handle);
            } else {
                self.skip_rounds(due.missed, due.handle);
            }
        }
    }

    fn begin_round(&mut self, now: Instant, due: Instant, handle: Handle) {
        self.expire_handle(now, handle);
        let Some(target) = self.registry.get_mut(handle) else {
            return;
        };
        let excused = target.begin_round(self.settings.period);
        self.stats.rounds += 1;
        self.stats.excused += excused;
        self.events.push_back(Event::Round {
            target: target.id,
            due,
            excused,
        });
        self.transmits
            .extend(target.queue().map(|queued| (handle, queued)));
    }

    /// Begins a round to a target at once, beside those of its schedule. For whoever wants an answer
    /// now; whoever judges a target's silence goes by the schedule alone.
    pub fn probe_now(&mut self, now: Instant, id: TargetId) {
        if let Some(handle) = self.registry.find(id) {
            self.begin_round(now, now, handle);
        }
    }

    /// Gives up a target's probes whose window has closed, without waiting for its next round.
    pub fn expire(&mut self, now: Instant, id: TargetId) {
        if let Some(handle) = self.registry.find(id) {
            self.expire_handle(now, handle);
        }
    }

    fn expire_handle(&mut self, now: Instant, handle: Handle) {
        let Some(target) = self.registry.get_mut(handle) else {
            return;
        };
        let id = target.id;
        target
            .window
            .expire(now, self.settings.reply_window, |address, sequence| {
                self.stats.lost += 1;
                self.events.push_back(Event::Lost {
                    target: id,
                    address,
                    sequence,
                });
            });
    }

    /// Leaves out rounds. Going on with the next one at its own time, rather than with the last
    /// one at once, keeps a prober that was held up from probing all its targets in one burst.
    fn skip_rounds(&mut self, missed: u64, handle: Handle) {
        let period = self.settings.period.as_nanos() as u64;
        if let Some(target) = self.registry.get_mut(handle) {
            target.excuse(Duration::from_nanos(period * missed));
        }
        self.stats.skipped_rounds += missed;
    }

    /// When [`poll`](Self::poll) is next worth calling. `None`: there is no target.
    pub fn next_wake(&self) -> Option<Instant> {
        self.schedule.next()
    }

    /// The next probe to send, timed as sent `now`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        while let Some((handle, queued)) = self.transmits.pop_front() {
            let Some(target) = self.registry.get_mut(handle) else {
                continue;
            };
            let timestamp = self.wall.at(now);
            let port = self.settings.port;
            let probe = target.probe(queued, now, timestamp, port, self.entitled);
            if let Some(probe) = probe {
                self.stats.sent += 1;
                self.stats.extending += u64::from(probe.extends);
                return Some(Transmit {
                    target: target.id,
                    sequence: probe.sequence,
                    to: probe.to,
                    payload: probe.payload,
                });
            }
        }
        None
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The sequence number of a target's next probe. Those that follow it grow by one each.
    pub fn next_sequence(&mut self, id: TargetId) -> Option<u32> {
        let handle = self.registry.find(id)?;
        Some(self.registry.get_mut(handle)?.window.next_sequence())
    }

    /// How the prober asks.
    pub fn settings(&self) -> &ProbeSettings {
        &self.settings
    }

    /// What has been counted.
    pub fn stats(&self) -> &ProberStats {
        &self.stats
    }
}

/// The addresses, each once, IPv4 in its own form.
fn distinct_addresses(addresses: &[IpAddr]) -> Result<Vec<IpAddr>, TargetError> {
    let mut distinct = Vec::with_capacity(addresses.len());
    for address in addresses.iter().map(IpAddr::to_canonical) {
        let broadcast = address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
        if address.is_unspecified() || address.is_multicast() || broadcast {
            return Err(TargetError::NotUnicast { address });
        }
        if !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    Ok(distinct)
}
