//! Authenticated probes.

use super::datagram::Datagram;
use super::{HOP_LIMIT, Node, source};
use crate::frame::Frame;
use crate::lease::Ask;
use crate::maps::{
    AgentBeat, AgentState, KEY_SLOTS, LocalChecks, NodeLease, ProbeConfig, ProberKey,
};
use crate::outcome::Outcome;
use crate::siphash::SipKey;
use crate::wire::ntp::NtpTime;
use crate::wire::probe::{
    AGENT_UP, Answer, DRAINING, LEASE_HELD, LOCAL_CHECKS_OK, PROBE_LEN, ProbePacket, TLV_LENGTH,
    TLV_TYPE, TLV_UNRECOGNISED, VERSION, age_ms,
};
use crate::wire::stamp::BASE_LEN;

const TLV_HEADER: usize = 4;
const TLV_TYPE_OFFSET: usize = BASE_LEN + 1;

/// Whether the first TLV behind the STAMP base packet is ours.
#[inline(always)]
pub(super) fn carries_our_tlv(frame: &Frame, datagram: &Datagram) -> bool {
    datagram.length >= BASE_LEN + TLV_HEADER
        && frame.read::<u8>(datagram.payload() + TLV_TYPE_OFFSET) == Ok(TLV_TYPE)
}

#[inline(always)]
pub(super) fn reflect(
    frame: &mut Frame,
    datagram: &Datagram,
    config: &ProbeConfig,
    node: &impl Node,
) -> Result<Outcome, Outcome> {
    if datagram.length != PROBE_LEN {
        return Err(Outcome::WrongSize);
    }
    let packet: &mut ProbePacket = frame
        .view(datagram.payload())
        .map_err(|_| Outcome::WrongSize)?;
    source::check_answerable(datagram)?;
    let Answered { now, outcome } = answer(packet, datagram.ttl, config, node)?;
    let sum = packet.checksum();
    datagram
        .turn_around(frame, HOP_LIMIT, sum)
        .map_err(|_| Outcome::WrongSize)?;
    let prober = ProberKey {
        address: datagram.source.octets(),
        port: datagram.source_port,
        pad: [0; 6],
    };
    node.answered(&prober, now, outcome.honoured());
    Ok(outcome)
}

/// A request that has become its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The one reading of the clock that all of it rests on: boot clock, ns.
    pub now: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// Turns a request's payload into the reply's, once the lease is what the request makes of it.
/// `ttl` is the TTL or hop limit with which the request came.
#[inline(always)]
pub fn answer(
    packet: &mut ProbePacket,
    ttl: u8,
    config: &ProbeConfig,
    node: &impl Node,
) -> Result<Answered, Outcome> {
    if packet.version() != VERSION || packet.tlv_length() != TLV_LENGTH {
        return Err(Outcome::WrongVersion);
    }
    if packet.tlv_flags() != TLV_UNRECOGNISED {
        return Err(Outcome::NotARequest);
    }
    if packet.node_id().0 != config.node_id {
        return Err(Outcome::WrongTarget);
    }
    let key = find_key(packet.key_id(), node).ok_or(Outcome::UnknownKey)?;
    // The reply is made before the request is known to be genuine, since both MACs are computed at
    // once: what has an effect must wait until then.
    let beat = node.beat().ok_or(Outcome::Unconfigured)?;
    let assignment = node.assignment().ok_or(Outcome::Unconfigured)?;
    let now = node.now();
    let ask = Ask::of(packet);
    let outcome = if !ask.is_for_lease() {
        Outcome::Answered
    } else if packet.verifies(&key) {
        node.consider(&ask, now)
    } else {
        return Err(Outcome::WrongMac);
    };
    let expires = node.lease_expires();
    let tunnel_seen = node.tunnel_seen().ok_or(Outcome::Unconfigured)?;
    let wall = NtpTime::from_unix_nanos(now.wrapping_add(beat.wall_offset_ns));
    let answer = Answer {
        received: wall,
        sent: wall,
        error_estimate: config.error_estimate,
        ttl,
        flags: flags(beat, expires, now),
        lease_ms: NodeLease::remaining_ms(expires, now),
        epoch: assignment.applied_epoch,
        incarnation: assignment.incarnation,
        node_time: now,
        beat_age_ms: beat.age_ms(now),
        tunnel_age_ms: age_ms(tunnel_seen, now),
    };
    *packet = packet.answered(&answer, &key).ok_or(Outcome::WrongMac)?;
    Ok(Answered { now, outcome })
}

#[inline(always)]
fn find_key(id: u16, node: &impl Node) -> Option<SipKey> {
    for slot in 0..KEY_SLOTS as u32 {
        if let Some(key) = node.key(slot)?.with_id(id) {
            return Some(key);
        }
    }
    None
}

#[inline(always)]
const fn flags(beat: &AgentBeat, expires: u64, now: u64) -> u8 {
    let mut flags = 0;
    if now < expires {
        flags |= LEASE_HELD;
    }
    if beat.is_up(now) {
        flags |= AGENT_UP;
    }
    if matches!(beat.state, AgentState::Draining) {
        flags |= DRAINING;
    }
    if !matches!(beat.checks, LocalChecks::Failing) {
        flags |= LOCAL_CHECKS_OK;
    }
    flags
}
