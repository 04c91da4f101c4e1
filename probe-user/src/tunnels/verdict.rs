//! Whether packets flow both ways between two nodes. Pure arithmetic on ages.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Since the last packet each way, as a node has counted it; `None`: there has been none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Since the last one from the peer.
    pub received: Option<Duration>,
    /// Since the last one to the peer.
    pub sent: Option<Duration>,
}

impl Ages {
    /// Since the last packet of either direction; longer than any age if there has been none.
    pub fn newest(&self) -> Duration {
        let ages = [self.received, self.sent].into_iter().flatten();
        ages.min().unwrap_or(Duration::MAX)
    }

    /// The ages of both tunnels taken as one.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let newer = |a: Option<Duration>, b: Option<Duration>| a.into_iter().chain(b).min();
        Self {
            received: newer(self.received, other.received),
            sent: newer(self.sent, other.sent),
        }
    }
}

/// What counts as flowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets may be this much rarer one way than the other, or arrive this much later than they
    /// are sent. Also bridges the time between two nodes' readings.
    pub one_way: Duration,
    /// A direction whose last packet is older is idle.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            one_way: Duration::from_secs(1),
            idle: Duration::from_secs(10),
        }
    }
}

/// What flows between a node and a peer, from the node's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing.
    Idle,
    /// Packets of both, and they arrive.
    BothWays,
    /// The peer's packets arrive; the node's do not, or it sends none.
    ReceivedOnly,
    /// The node sends; nothing of the peer's arrives.
    SentOnly,
}

impl Verdict {
    /// In words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::BothWays => "both ways",
            Self::ReceivedOnly => "received only",
            Self::SentOnly => "sent only",
        }
    }

    /// The same as one word, as the interfaces have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::BothWays => "both_ways",
            Self::ReceivedOnly => "received_only",
            Self::SentOnly => "sent_only",
        }
    }

    /// Whether only one direction works, or is used.
    pub const fn is_one_way(self) -> bool {
        matches!(self, Self::ReceivedOnly | Self::SentOnly)
    }
}

/// What flows between a node and a peer, by what the node has counted, and the peer, if it has been
/// asked. A node alone cannot know whether what it sends arrives.
pub fn judge(own: Ages, peer: Option<Ages>, limits: Limits) -> Verdict {
    let is_fresh = |age: Option<Duration>| age.is_some_and(|age| age <= limits.idle);
    // Of what was sent, or else by whatever went the other way.
    let keeps_up = |age: Option<Duration>, with: Option<Duration>| {
        let slack = |with: Duration| age.is_some_and(|age| age <= with + limits.one_way);
        is_fresh(age) && with.is_none_or(slack)
    };
    let (heard, arrives) = match peer {
        Some(peer) => (
            keeps_up(own.received, peer.sent),
            keeps_up(peer.received, own.sent),
        ),
        None => (
            keeps_up(own.received, own.sent),
            keeps_up(own.sent, own.received),
        ),
    };
    match (heard, arrives) {
        (true, true) => Verdict::BothWays,
        (true, false) => Verdict::ReceivedOnly,
        (false, true) => Verdict::SentOnly,
        (false, false) if is_fresh(own.sent) => Verdict::SentOnly,
        (false, false) => Verdict::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: u64 = u64::MAX;

    fn ages(received: u64, sent: u64) -> Ages {
        let age = |millis: u64| (millis != NEVER).then(|| Duration::from_millis(millis));
        Ages {
            received: age(received),
            sent: age(sent),
        }
    }

    fn alone(received: u64, sent: u64) -> Verdict {
        judge(ages(received, sent), None, Limits::default())
    }

    fn pair(own: Ages, peer: Ages) -> [Verdict; 2] {
        let limits = Limits::default();
        [
            judge(own, Some(peer), limits),
            judge(peer, Some(own), limits),
        ]
    }

    #[test]
    fn a_node_alone_judges_by_what_it_has_counted() {
        for (received, sent, expected) in [
            (0, 0, Verdict::BothWays),
            (900, 0, Verdict::BothWays),
            (9_500, 9_000, Verdict::BothWays),
            (1_001, 0, Verdict::SentOnly),
            (NEVER, 0, Verdict::SentOnly),
            (0, 1_001, Verdict::ReceivedOnly),
            (0, NEVER, Verdict::ReceivedOnly),
            (10_001, 10_001, Verdict::Idle),
            (NEVER, NEVER, Verdict::Idle),
            (10_001, NEVER, Verdict::Idle),
        ] {
            assert_eq!(alone(received, sent), expected, "{received}, {sent}");
        }
    }

    #[test]
    fn traffic_both_ways_that_arrives_is_both_ways_for_both() {
        assert_eq!(pair(ages(10, 0), ages(5, 3)), [Verdict::BothWays; 2]);
        assert_eq!(pair(ages(1_000, 0), ages(0, 0)), [Verdict::BothWays; 2]);
    }

    #[test]
    fn what_is_sent_and_does_not_arrive_is_seen_by_both_together() {
        // Both send all the time; the first one's packets are lost.
        let (cut, other) = (ages(0, 0), ages(1_500, 0));
        assert_eq!(alone(0, 0), Verdict::BothWays, "by itself it cannot know");
        assert_eq!(pair(cut, other), [Verdict::ReceivedOnly, Verdict::SentOnly]);
    }

    #[test]
    fn what_is_lost_both_ways_is_sent_only_for_both() {
        assert_eq!(pair(ages(3_000, 0), ages(3_000, 0)), [Verdict::SentOnly; 2]);
    }

    #[test]
    fn one_who_only_listens_is_received_only() {
        let (talks, listens) = (ages(NEVER, 0), ages(0, NEVER));
        assert_eq!(
            pair(talks, listens),
            [Verdict::SentOnly, Verdict::ReceivedOnly]
        );
    }

    #[test]
    fn a_conversation_that_has_ended_stays_what_it_was_until_it_is_idle() {
        assert_eq!(
            pair(ages(9_000, 8_500), ages(8_600, 8_900)),
            [Verdict::BothWays; 2]
        );
        assert_eq!(
            pair(ages(11_000, 11_000), ages(11_000, 11_000)),
            [Verdict::Idle; 2]
        );
    }

    #[test]
    fn tunnels_of_one_peer_are_as_fresh_as_the_freshest() {
        let merged = ages(5, NEVER).merged(ages(7, 9));
        assert_eq!(merged, ages(5, 9));
        assert_eq!(merged.newest(), Duration::from_millis(5));
        assert_eq!(ages(NEVER, NEVER).newest(), Duration::MAX);
    }
}
