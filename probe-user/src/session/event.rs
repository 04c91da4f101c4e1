//! What a prober hands to its caller.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_ebpf::wire::probe::{PROBE_LEN, Reply};

use super::TargetId;

/// Something that a prober has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A target answered a probe: authentic, in time, and for the first time.
    ///
    /// Replies from one address come in the order of the node's clock. Those of a dual-stack
    /// target's different addresses may overtake each other; see `newest`.
    Reply {
        /// Who answered.
        target: TargetId,
        /// When the reply arrived.
        at: Instant,
        /// From sending the probe to `at`.
        round_trip: Duration,
        /// What the node says.
        reply: Reply,
        /// The target's address that answered.
        from: IpAddr,
        /// Whether this is the node's latest word. If not, another of its addresses has already
        /// brought a later one: the reply is a sign of life, but what it says of the agent is
        /// out of date.
        newest: bool,
    },
    /// A new round of probes to a target begins.
    Round {
        /// Who is probed.
        target: TargetId,
        /// For when the round was scheduled. Judge silence as of this time, not of the clock.
        due: Instant,
        /// Time since the last round event, or since the target was inserted, that is not the
        /// node's silence, because the prober itself did not ask: rounds that it came too late
        /// for, and rounds of which its own host let nothing out.
        excused: Duration,
    },
    /// A probe's reply window closed without a reply. Noticed when the target's next round
    /// begins, so up to one period later, or by
    /// [`Prober::expire`](super::Prober::expire).
    Lost {
        /// Who did not answer.
        target: TargetId,
        /// The address that was probed.
        address: IpAddr,
        /// The probe's sequence number.
        sequence: u32,
    },
}

/// A probe to send, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Who is probed.
    pub target: TargetId,
    /// The probe's sequence number, unique among those outstanding to the target.
    pub sequence: u32,
    /// Where to.
    pub to: SocketAddr,
    /// The datagram's payload.
    pub payload: [u8; PROBE_LEN],
}
