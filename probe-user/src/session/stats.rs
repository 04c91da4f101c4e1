//! What a prober counts.

use std::time::Duration;

/// Upper bounds of [`Lag::counts`], but for the last, which has none.
pub const LAG_BOUNDS: [Duration; 9] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

/// By how much rounds began later than they were scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The latest round's.
    pub last: Duration,
    /// The largest so far.
    pub max: Duration,
    /// All of them added up.
    pub sum: Duration,
    /// How many rounds lagged by at most the bound of the same index, and more than the one
    /// before; the last counts the rest.
    pub counts: [u64; LAG_BOUNDS.len() + 1],
}

impl Lag {
    pub(super) fn observe(&mut self, lag: Duration) {
        self.last = lag;
        self.max = self.max.max(lag);
        self.sum += lag;
        self.counts[LAG_BOUNDS.partition_point(|bound| *bound < lag)] += 1;
    }
}

/// Counters since the prober was made. Every probe handed out ends as answered, lost or refused,
/// or goes with its target or address; every datagram handed in counts once, in one of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProberStats {
    /// Probes handed out to be sent, those refused included.
    pub sent: u64,
    /// Probes among these that extend a node's lease, if the node agrees.
    pub extending: u64,
    /// Probes that the socket refused for a reason of this host.
    pub refused: u64,
    /// Probes answered in time, `reordered` ones included.
    pub answered: u64,
    /// Probes whose window closed unanswered.
    pub lost: u64,
    /// Authentic replies that came after their probe's window had closed.
    pub late: u64,
    /// Authentic replies, in time, to a probe that was answered already.
    pub duplicate: u64,
    /// Authentic replies, in time, that say something older than what their address said before.
    pub reordered: u64,
    /// Authentic replies to no probe of this prober: a replay.
    pub replayed: u64,
    /// Replies whose MAC, key or node is not the target's.
    pub forged: u64,
    /// Datagrams from a target that are not replies of ours.
    pub foreign: u64,
    /// Datagrams from an address and port that are not a target's.
    pub unexpected_source: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Rounds left out because the prober came a period or more too late.
    pub skipped_rounds: u64,
    /// Time not counted as silence, added up over all targets.
    pub excused: Duration,
    /// How late rounds began.
    pub lag: Lag,
}

/// Why a datagram is not news of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    Late,
    Duplicate,
    Reordered,
    Replayed,
    Forged,
    Foreign,
    UnexpectedSource,
}

impl ProberStats {
    pub(super) fn count(&mut self, rejection: Rejection) {
        let counter = match rejection {
            Rejection::Late => &mut self.late,
            Rejection::Duplicate => &mut self.duplicate,
            Rejection::Reordered => {
                self.answered += 1;
                &mut self.reordered
            }
            Rejection::Replayed => &mut self.replayed,
            Rejection::Forged => &mut self.forged,
            Rejection::Foreign => &mut self.foreign,
            Rejection::UnexpectedSource => &mut self.unexpected_source,
        };
        *counter += 1;
    }
}
