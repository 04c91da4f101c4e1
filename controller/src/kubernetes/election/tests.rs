//! Elections against an API server that is slow, forgetful or gone, by clocks that run at other rates.

use proptest::prelude::*;

use super::*;

const DURATION: Duration = Duration::from_secs(4);
const RENEW: Duration = Duration::from_secs(1);

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn election(name: &str, now: Instant) -> Election {
    let settings = ElectionSettings {
        identity: name.to_owned(),
        duration: DURATION,
        renew: RENEW,
    };
    Election::new(now, settings)
}

/// An API server's Lease.
#[derive(Default)]
struct Server {
    lease: Option<Held>,
    writes: u64,
}

impl Server {
    fn answer(&mut self, request: &Request) -> Answer {
        let Request::Write {
            version,
            holder,
            transitions,
        } = request
        else {
            return Answer::Read(self.lease.clone());
        };
        if self.lease.as_ref().map(|held| &held.version) != version.as_ref() {
            return Answer::Conflict;
        }
        self.writes += 1;
        let held = Held {
            version: self.writes.to_string(),
            holder: holder.clone(),
            duration: DURATION,
            transitions: *transitions,
        };
        self.lease = Some(held.clone());
        Answer::Written(held)
    }
}

/// Asks until there is nothing to ask at `now`.
fn settle(election: &mut Election, server: &mut Server, now: Instant) {
    while let Some(request) = election.poll(now) {
        election.handle(now, server.answer(&request));
    }
}

#[test]
fn whoever_comes_first_leads_and_writes_once_for_each_renewal() {
    let start = Instant::now();
    let (mut one, mut other) = (election("one", start), election("other", start));
    let mut server = Server::default();
    for step in 0..100 {
        let now = start + RENEW * step / 10;
        settle(&mut one, &mut server, now);
        settle(&mut other, &mut server, now);
        assert!(one.term(now).is_some() && other.term(now).is_none());
    }
    assert_eq!(server.writes, 10);
    assert_eq!(other.leader(start + RENEW * 10), Some("one"));
}

#[test]
fn a_leader_that_is_gone_is_succeeded_a_lease_after_its_last_word_was_seen() {
    let start = Instant::now();
    let (mut one, mut other) = (election("one", start), election("other", start));
    let mut server = Server::default();
    settle(&mut one, &mut server, start);
    settle(&mut other, &mut server, start);
    let almost = start + DURATION - seconds(0.001);
    settle(&mut other, &mut server, almost);
    assert!(other.term(almost).is_none());
    let later = almost + RENEW;
    settle(&mut other, &mut server, later);
    assert!(other.term(later).is_some() && one.term(later).is_none());
    // The one before comes back, learns it, and leads no more.
    settle(&mut one, &mut server, later);
    assert_eq!(one.leader(later), Some("other"));
}

#[test]
fn a_lease_that_is_given_away_is_taken_at_the_next_look() {
    let start = Instant::now();
    let (mut one, mut other) = (election("one", start), election("other", start));
    let mut server = Server::default();
    settle(&mut one, &mut server, start);
    settle(&mut other, &mut server, start);
    one.release(start);
    assert!(one.term(start).is_none() && one.is_releasing());
    settle(&mut one, &mut server, start);
    assert!(!one.is_releasing());
    settle(&mut one, &mut server, start + RENEW);
    settle(&mut other, &mut server, start + RENEW);
    assert!(other.term(start + RENEW).is_some());
}

#[test]
fn without_an_api_server_the_term_ends_before_anyone_could_succeed() {
    let start = Instant::now();
    let mut one = election("one", start);
    let mut server = Server::default();
    settle(&mut one, &mut server, start);
    let first = one.term(start).unwrap();
    let mut now = start;
    while now < start + DURATION {
        now += seconds(0.1);
        if one.poll(now).is_some() {
            one.handle(now, Answer::Failed);
        }
    }
    assert!(first.end < start + DURATION);
    assert!(one.term(now).is_none() && one.leader(now).is_none());
    // It returns: another term begins.
    now += RENEW;
    settle(&mut one, &mut server, now);
    assert_ne!(one.term(now).unwrap().number, first.number);
}

#[test]
fn a_term_counts_from_before_it_was_asked_for() {
    let start = Instant::now();
    let mut one = election("one", start);
    let mut server = Server::default();
    one.poll(start).unwrap();
    one.handle(start, Answer::Read(None));
    let request = one.poll(start).unwrap();
    let written = server.answer(&request);
    one.handle(start + seconds(3.0), written);
    assert!(one.term(start + seconds(3.9)).is_some());
    assert!(one.term(start + seconds(4.0)).is_none());
}

#[test]
fn a_write_whose_outcome_nobody_knows_is_found_out_about() {
    let start = Instant::now();
    let mut one = election("one", start);
    let mut server = Server::default();
    settle(&mut one, &mut server, start);
    let now = start + RENEW;
    let request = one.poll(now).unwrap();
    server.answer(&request);
    one.handle(now, Answer::Failed);
    settle(&mut one, &mut server, now + RENEW);
    let end = one.term(now + RENEW).unwrap().end;
    assert!(end > now + RENEW + DURATION / 2);
}

#[test]
fn the_same_pod_started_again_waits_as_any_other() {
    let start = Instant::now();
    let mut server = Server::default();
    settle(&mut election("pod_1", start), &mut server, start);
    let mut again = election("pod_2", start);
    settle(&mut again, &mut server, start);
    assert!(again.term(start).is_none());
}

/// One process: its clock, and the request that is on its way.
struct Process {
    election: Election,
    /// Of its clock, to real time.
    rate: f64,
    start: Instant,
    request: Option<(Request, Option<Answer>)>,
}

impl Process {
    fn now(&self, real: Duration) -> Instant {
        self.start + real.mul_f64(self.rate)
    }
}

proptest! {
    /// Real time passes in steps of 50 ms; in each one something may happen to each process's request:
    /// it arrives, its answer arrives, or one of them is lost.
    #[test]
    fn there_are_never_two_leaders(
        rates in prop::array::uniform3(0.995_f64..1.005),
        fates in prop::collection::vec(prop::array::uniform3(0_u8..12), 400..800),
    ) {
        let begin = Instant::now();
        let mut server = Server::default();
        let mut processes: Vec<Process> = ["a", "b", "c"].iter().zip(rates).enumerate()
            .map(|(index, (name, rate))| {
                let start = begin + Duration::from_secs(1000 * index as u64);
                Process { election: election(name, start), rate, start, request: None }
            })
            .collect();
        for (step, fates) in fates.iter().enumerate() {
            let real = Duration::from_millis(50) * step as u32;
            for (process, fate) in processes.iter_mut().zip(fates) {
                let now = process.now(real);
                match (process.request.take(), fate) {
                    (None, _) => {
                        process.request = process.election.poll(now).map(|request| (request, None));
                    }
                    (Some((request, None)), 0..=3) => {
                        let answer = server.answer(&request);
                        process.request = Some((request, Some(answer)));
                    }
                    (Some((_, Some(answer))), 0..=5) => process.election.handle(now, answer),
                    (Some(_), 6) => process.election.handle(now, Answer::Failed),
                    (Some(_), 7) if step % 8 == 0 => process.election.release(now),
                    (Some(waiting), _) => process.request = Some(waiting),
                }
            }
            let leaders = processes.iter().filter(|it| it.election.term(it.now(real)).is_some());
            prop_assert!(leaders.count() <= 1);
        }
    }
}
