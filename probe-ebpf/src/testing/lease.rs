//! The table of the lease: what is sent to a node that has no lease yet, and until when it holds
//! one afterwards.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::frames::FrameSpec;
use super::node::{HostNode, LEASE_LIMIT_MS, OTHER_KEY, WITNESSES, request};
use crate::maps::Assignment;
use crate::outcome::Outcome;
use crate::siphash::SipKey;
use crate::wire::NodeId;
use crate::wire::probe::{RENEW, Request, VOTE};

const MILLI: u64 = 1_000_000;
/// What the requests ask for, ms: less than the node's limit.
const WANTED_MS: u32 = 1400;
const WANTED: u64 = WANTED_MS as u64 * MILLI;

/// A frame, and what has to become of it.
pub struct LeaseStep {
    /// The frame.
    pub frame: Vec<u8>,
    /// What has to become of it.
    pub expected: Outcome,
}

/// One row.
pub struct LeaseCase {
    /// What is special about it.
    pub name: String,
    /// What is sent, in order.
    pub steps: Vec<LeaseStep>,
    /// When the lease ends after the last step: boot clock, ns; 0 = none was ever granted.
    pub expires_ns: u64,
}

/// What goes wrong with a request, or does not.
type Change = (&'static str, fn(&mut Request, u64), Outcome);

/// Everything about a request that has to be right, wrong.
const VIOLATIONS: [Change; 6] = [
    (
        "another incarnation",
        |it, _| it.incarnation ^= 1,
        Outcome::LeaseOtherIncarnation,
    ),
    (
        "no incarnation",
        |it, _| it.incarnation = 0,
        Outcome::LeaseOtherIncarnation,
    ),
    (
        "an echo from the future",
        |it, now| it.node_time = now + 3_600_000 * MILLI,
        Outcome::LeaseWrongEcho,
    ),
    ("no echo", |it, _| it.node_time = 0, Outcome::LeaseWrongEcho),
    (
        "a floor above the applied epoch",
        |it, _| it.epoch_floor += 5,
        Outcome::LeaseOldEpoch,
    ),
    (
        "no time wanted",
        |it, _| it.lease_ms = 0,
        Outcome::LeaseNotGranted,
    ),
];

/// What makes requests to a node with this assignment, at this time of its boot clock.
struct Asker {
    incarnation: u64,
    floor: u64,
    now: u64,
}

impl Asker {
    /// Of how long ago the request echoes a reply.
    fn renew(&self, ago_ms: u64) -> Request {
        Request {
            flags: RENEW,
            lease_ms: WANTED_MS,
            epoch_floor: self.floor,
            incarnation: self.incarnation,
            node_time: self.echo(ago_ms),
            ..request()
        }
    }

    fn vote(&self, witness: usize, ago_ms: u64) -> Request {
        Request {
            flags: VOTE,
            prober: WITNESSES[witness],
            ..self.renew(ago_ms)
        }
    }

    fn votes<const N: usize>(&self, votes: [(usize, u64); N]) -> Vec<LeaseStep> {
        let vote = |(witness, ago)| step(self.vote(witness, ago), Outcome::AnsweredVote);
        votes.map(vote).into()
    }

    const fn echo(&self, ago_ms: u64) -> u64 {
        self.now - ago_ms * MILLI
    }
}

/// All rows, for a node with this assignment and the witness set [`WITNESSES`], at this time of its
/// boot clock or later.
pub fn lease_cases(assignment: &Assignment, now: u64) -> Vec<LeaseCase> {
    let asker = Asker {
        incarnation: assignment.incarnation,
        floor: assignment.applied_epoch,
        now,
    };
    let mut cases = Vec::new();
    renewals(&asker, &mut cases);
    votes(&asker, &mut cases);
    violations(&asker, &mut cases);
    forgeries(&asker, &mut cases);
    cases
}

fn step(request: Request, expected: Outcome) -> LeaseStep {
    signed(request, &HostNode::current_key(), expected)
}

fn signed(request: Request, key: &SipKey, expected: Outcome) -> LeaseStep {
    let frame = FrameSpec::new(&request.encode(key).to_bytes()).build();
    LeaseStep { frame, expected }
}

fn push(
    cases: &mut Vec<LeaseCase>,
    name: impl Into<String>,
    steps: Vec<LeaseStep>,
    expires_ns: u64,
) {
    cases.push(LeaseCase {
        name: name.into(),
        steps,
        expires_ns,
    });
}

fn renewals(asker: &Asker, cases: &mut Vec<LeaseCase>) {
    let renewed = |request| step(request, Outcome::AnsweredRenew);
    let fresh = || renewed(asker.renew(100));
    let end = asker.echo(100) + WANTED;
    push(cases, "RENEW", vec![fresh()], end);
    push(cases, "RENEW, replayed", vec![fresh(), fresh()], end);
    let old = || renewed(asker.renew(900));
    push(cases, "an older RENEW later", vec![fresh(), old()], end);
    push(cases, "a newer RENEW later", vec![old(), fresh()], end);
    let long = Request {
        lease_ms: u32::MAX,
        ..asker.renew(100)
    };
    let limit = asker.echo(100) + u64::from(LEASE_LIMIT_MS) * MILLI;
    push(cases, "RENEW for ever", vec![renewed(long)], limit);
    let low = Request {
        epoch_floor: 0,
        ..asker.renew(100)
    };
    push(cases, "RENEW with a floor below", vec![renewed(low)], end);
    let next_key = Request {
        key_id: 2,
        ..asker.renew(100)
    };
    let step = signed(next_key, &HostNode::next_key(), Outcome::AnsweredRenew);
    push(cases, "RENEW under the next key", vec![step], end);
}

fn votes(asker: &Asker, cases: &mut Vec<LeaseCase>) {
    push(cases, "one vote of five", asker.votes([(0, 100)]), 0);
    let two = asker.votes([(0, 100), (4, 100)]);
    push(cases, "two votes of five", two, 0);
    let alone = asker.votes([(2, 400), (2, 300), (2, 200), (2, 100)]);
    push(cases, "four votes of one witness", alone, 0);
    let end = |ago| asker.echo(ago) + WANTED;
    let three = asker.votes([(0, 300), (1, 100), (2, 200)]);
    push(cases, "three votes of five", three, end(300));
    let all = asker.votes([(0, 300), (1, 100), (2, 200), (3, 500), (4, 50)]);
    push(cases, "five votes of five", all, end(200));
    let equal = asker.votes([(4, 70), (3, 70), (2, 70)]);
    push(cases, "three equal votes", equal, end(70));
    let again = asker.votes([(0, 300), (1, 300), (2, 300), (0, 100), (1, 100)]);
    push(cases, "two of three vote again", again, end(300));
    let replayed = asker.votes([(0, 100), (1, 100), (2, 300), (0, 900), (2, 300)]);
    push(cases, "old votes later", replayed, end(300));

    let mut beside = asker.votes([(0, 300), (1, 300), (2, 300)]);
    beside.push(step(asker.renew(100), Outcome::AnsweredRenew));
    push(cases, "votes, then a newer RENEW", beside, end(100));
    let mut after = vec![step(asker.renew(100), Outcome::AnsweredRenew)];
    after.extend(asker.votes([(0, 300), (1, 300), (2, 300)]));
    push(cases, "a RENEW, then older votes", after, end(100));

    let stranger = Request {
        prober: 0xa6,
        ..asker.vote(0, 100)
    };
    let mut helped = asker.votes([(0, 100), (1, 100)]);
    helped.push(step(stranger, Outcome::LeaseUnknownWitness));
    push(cases, "two votes and a stranger's", helped, 0);
    let mut broken = asker.votes([(0, 100), (1, 100)]);
    for (_, change, outcome) in VIOLATIONS {
        let mut third = asker.vote(2, 100);
        change(&mut third, asker.now);
        broken.push(step(third, outcome));
    }
    push(cases, "two votes and broken third ones", broken, 0);
}

fn violations(asker: &Asker, cases: &mut Vec<LeaseCase>) {
    for (what, change, outcome) in VIOLATIONS {
        let mut renew = asker.renew(100);
        change(&mut renew, asker.now);
        let steps = vec![step(renew, outcome)];
        push(cases, format!("RENEW with {what}"), steps, 0);
    }
    let plain = Request {
        flags: 0,
        ..asker.renew(100)
    };
    let steps = vec![step(plain, Outcome::Answered)];
    push(cases, "neither RENEW nor VOTE", steps, 0);
    let both = |prober| Request {
        flags: RENEW | VOTE,
        prober,
        ..asker.renew(100)
    };
    let witness = WITNESSES[0];
    for (name, request) in [
        ("RENEW and VOTE", both(0)),
        ("RENEW and VOTE of a witness", both(witness)),
        (
            "RENEW of a witness",
            Request {
                prober: witness,
                ..asker.renew(100)
            },
        ),
        (
            "VOTE of a controller",
            Request {
                prober: 0,
                ..asker.vote(0, 100)
            },
        ),
    ] {
        let steps = vec![step(request, Outcome::LeaseContradiction)];
        push(cases, name, steps, 0);
    }
}

fn forgeries(asker: &Asker, cases: &mut Vec<LeaseCase>) {
    let forged = SipKey::from_bytes(&OTHER_KEY);
    let steps = vec![signed(asker.renew(100), &forged, Outcome::WrongMac)];
    push(cases, "RENEW under another key", steps, 0);
    let votes = (0..5).map(|witness| signed(asker.vote(witness, 100), &forged, Outcome::WrongMac));
    push(cases, "votes under another key", votes.collect(), 0);
    // The flag alone, on a probe that was overheard.
    let mut plain = step(asker.renew(100), Outcome::WrongMac);
    let overheard = Request {
        flags: 0,
        ..asker.renew(100)
    };
    let payload = overheard.encode(&HostNode::current_key()).to_bytes();
    let mut spec = FrameSpec::new(&payload);
    spec.payload[49] |= RENEW;
    plain.frame = spec.build();
    push(cases, "a probe made a RENEW", vec![plain], 0);
    let elsewhere = Request {
        node_id: NodeId::of("n2"),
        ..asker.renew(100)
    };
    let steps = vec![step(elsewhere, Outcome::WrongTarget)];
    push(cases, "RENEW for another node", steps, 0);
}
