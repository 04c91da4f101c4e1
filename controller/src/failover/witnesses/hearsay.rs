//! What witnesses say of nodes that the controller has lost.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use probe_user::channel::WitnessReport;

use super::Member;

/// Kept only while the controller suspects itself.
#[derive(Debug, Default)]
pub(super) struct Hearsay {
    is_wanted: bool,
    /// By instance: when it said so, and how long ago it had heard each node; `None`: never.
    said: BTreeMap<u64, (Instant, HashMap<String, Option<Duration>>)>,
}

impl Hearsay {
    pub(super) fn want(&mut self, wanted: bool) {
        self.is_wanted = wanted;
        if !wanted {
            self.said.clear();
        }
    }

    pub(super) fn note(&mut self, now: Instant, report: &WitnessReport) {
        if self.is_wanted {
            let heard = report.heard.iter();
            let heard = heard.map(|heard| (heard.node.clone(), heard.heard_ago));
            self.said.insert(report.instance, (now, heard.collect()));
        }
    }

    /// Whether most of `set` have said after `since` that they have not heard `node` for `silence`.
    pub(super) fn confirms<'a>(
        &self,
        node: &str,
        since: Instant,
        silence: Duration,
        set: impl Iterator<Item = &'a Member>,
    ) -> bool {
        let misses = |member: &Member| {
            let said = self.said.get(&member.instance);
            said.filter(|(at, _)| *at >= since)
                .and_then(|(_, heard)| heard.get(node))
                .is_some_and(|ago| ago.is_none_or(|ago| ago >= silence))
        };
        let (mut of, mut missing) = (0, 0);
        for member in set {
            of += 1;
            missing += usize::from(misses(member));
        }
        missing > of / 2
    }
}

#[cfg(test)]
mod tests {
    use probe_user::channel::Heard;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(1);

    fn report(instance: u64, ago: Option<Duration>) -> WitnessReport {
        let node = "n".to_owned();
        let heard = Heard {
            node,
            heard_ago: ago,
            ..Heard::default()
        };
        WitnessReport {
            instance,
            heard: vec![heard],
        }
    }

    fn confirms(hearsay: &Hearsay, since: Instant) -> bool {
        let set: Vec<Member> = (1..=3)
            .map(|instance| Member {
                node: instance.to_string(),
                instance,
            })
            .collect();
        hearsay.confirms("n", since, SILENCE, set.iter())
    }

    #[test]
    fn most_of_a_nodes_witnesses_have_to_miss_it() {
        let start = Instant::now();
        let mut hearsay = Hearsay::default();
        hearsay.want(true);
        hearsay.note(start, &report(1, Some(SILENCE)));
        hearsay.note(start, &report(9, None));
        assert!(!confirms(&hearsay, start));
        hearsay.note(start, &report(2, Some(SILENCE / 2)));
        assert!(!confirms(&hearsay, start));
        hearsay.note(start, &report(3, None));
        assert!(confirms(&hearsay, start));
        assert!(!confirms(&hearsay, start + SILENCE), "that was before");
    }

    #[test]
    fn what_nobody_wants_to_know_is_not_kept() {
        let start = Instant::now();
        let mut hearsay = Hearsay::default();
        for wanted in [false, true] {
            hearsay.want(wanted);
            (1..=3).for_each(|instance| hearsay.note(start, &report(instance, None)));
            assert_eq!(confirms(&hearsay, start), wanted);
        }
        hearsay.want(false);
        assert!(!confirms(&hearsay, start));
    }
}
