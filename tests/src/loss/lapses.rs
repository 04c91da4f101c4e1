//! Lapses of leases: a node answers all the time, and so many probes and answers are lost that its lease
//! is not extended in time.
//!
//! Whoever extends a lease echoes the last answer that came. As long as each probe is answered there is
//! nothing to see; from the first that is not, each round is played, until two in a row are answered:
//! then all is as before.

use probe_ebpf::maps::{NodeLease, Witness};

use super::chance::Chance;
use super::{LEASE, NODES, PERIOD, rounds};

/// How many witnesses a node has.
pub const WITNESSES: u32 = 5;
const PERIOD_NS: u64 = PERIOD.as_nanos() as u64;
const LEASE_NS: u64 = LEASE.as_nanos() as u64;
/// After so many rounds nothing is left of how an observer began.
const SETTLED: u64 = 30;

/// Somebody who probes the node and extends its lease.
#[derive(Clone, Copy)]
struct Observer {
    /// When the last answer came that is echoed.
    heard: u64,
}

impl Observer {
    /// A round of probes. What it echoes, if it arrives.
    fn probe(&mut self, now: u64, probe_lost: bool, answer_lost: bool) -> Option<u64> {
        if probe_lost {
            return None;
        }
        let echoed = self.heard;
        if !answer_lost {
            self.heard = now;
        }
        Some(echoed)
    }
}

/// One probe of the controller's that arrived.
#[derive(Clone, Copy)]
struct Renewal {
    now: u64,
    echoed: u64,
}

/// The controller's probes from the first that is not answered until two in a row are.
fn play(chance: &mut Chance, renewals: &mut Vec<Renewal>) -> u64 {
    let mut round = SETTLED;
    let at = |round: u64| round * PERIOD_NS;
    let heard = at(round - 1);
    let mut controller = Observer { heard };
    let echoed = at(round - 2);
    renewals.clear();
    renewals.push(Renewal { now: heard, echoed });
    let probe_lost = chance.is_lost_of_unanswered();
    let mut outcome = (probe_lost, true);
    let mut answered = 0;
    loop {
        let now = at(round);
        let echoed = controller.probe(now, outcome.0, outcome.1);
        renewals.extend(echoed.map(|echoed| Renewal { now, echoed }));
        answered = if outcome == (false, false) {
            answered + 1
        } else {
            0
        };
        round += 1;
        if answered == 2 {
            return round - SETTLED;
        }
        outcome = (chance.is_lost(), chance.is_lost());
    }
}

/// Whether the lease lapses if the controller alone extends it.
fn lapses_without_votes(renewals: &[Renewal]) -> bool {
    let mut lease = NodeLease::default();
    renewals.iter().any(|renewal| {
        let lapsed = lease.lapses(renewal.now) > 0;
        lease.renew(renewal.echoed, LEASE_NS, renewal.now);
        lapsed
    })
}

/// Whether it lapses all the same if witnesses vote.
fn lapses_with_votes(chance: &mut Chance, renewals: &[Renewal]) -> bool {
    let end = renewals.last().unwrap().now;
    let mut events: Vec<(u64, Option<u32>, u64)> = Vec::new();
    events.extend(renewals.iter().map(|it| (it.now, None, it.echoed)));
    for slot in 0..WITNESSES {
        // Each has its own place in the period.
        let mut now = 1 + PERIOD_NS * u64::from(slot) / u64::from(WITNESSES);
        let mut witness = Observer { heard: now };
        while now <= end {
            let echoed = witness.probe(now, chance.is_lost(), chance.is_lost());
            events.extend(echoed.map(|echoed| (now, Some(slot), echoed)));
            now += PERIOD_NS;
        }
    }
    events.sort_unstable();
    let mut lease = NodeLease::default();
    let mut lapsed = false;
    for (now, slot, echoed) in events {
        lapsed |= now > renewals[0].now && lease.lapses(now) > 0;
        match slot {
            None => lease.renew(echoed, LEASE_NS, now),
            Some(slot) => {
                let witness = Witness {
                    set_version: 1,
                    set_size: WITNESSES,
                    slot,
                };
                lease.vote(&witness, echoed, LEASE_NS, now);
            }
        }
    }
    lapsed
}

/// How often leases lapsed in so many hours, of all nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapses {
    /// If the controller alone extends them.
    pub without_votes: u64,
    /// If [`WITNESSES`] do so, too.
    pub with_votes: u64,
}

impl Lapses {
    /// With this share of all packets lost in each direction. The same every time.
    pub fn simulate(loss: f64, hours: f64) -> Self {
        let mut chance = Chance::new(11, loss);
        let unanswered = chance.unanswered();
        let mut lapses = Self {
            without_votes: 0,
            with_votes: 0,
        };
        let mut renewals = Vec::new();
        let all = rounds(hours);
        let mut passed = chance.failures_before(unanswered);
        while passed < all {
            passed += play(&mut chance, &mut renewals);
            if lapses_without_votes(&renewals) {
                lapses.without_votes += 1;
                lapses.with_votes += u64::from(lapses_with_votes(&mut chance, &renewals));
            }
            passed += chance.failures_before(unanswered);
        }
        lapses
    }

    /// So many, in so many hours, in 1,000 hours of one node.
    pub fn rate(lapses: u64, hours: f64) -> f64 {
        lapses as f64 * 1000.0 / (f64::from(NODES) * hours)
    }
}
