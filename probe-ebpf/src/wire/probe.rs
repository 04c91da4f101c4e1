//! The authenticated probe: a STAMP base packet and one TLV of private type 252, 104 bytes both
//! ways.

use super::NodeId;
use super::ntp::NtpTime;
use super::stamp::StampBase;
use super::word::Word;
use crate::checksum::Checksum;
use crate::frame::Plain;
use crate::siphash::{self, SipKey};

/// UDP payload of a probe and of its reply, bytes.
pub const PROBE_LEN: usize = 104;
/// STAMP TLV type, from the range for private use (RFC 8972 section 5.1).
pub const TLV_TYPE: u8 = 252;
/// Bytes of TLV value.
pub const TLV_LENGTH: u16 = 56;
/// STAMP TLV flag U, "unrecognised": set by the sender, cleared by whoever knows the type.
pub const TLV_UNRECOGNISED: u8 = 0x80;
/// Version of the TLV's value.
pub const VERSION: u8 = 1;

const TAIL_WORDS: usize = 7;
/// Bytes before the MAC, which it covers.
const SIGNED_LEN: usize = 96;

/// Request flag: the deciding controller renews the node's lease.
pub const RENEW: u8 = 1 << 0;
/// Request flag: a witness votes for the node's lease.
pub const VOTE: u8 = 1 << 1;

/// Reply flag: the agent's deadline has not passed.
pub const AGENT_UP: u8 = 1 << 0;
/// Reply flag: the agent was asked to stop.
pub const DRAINING: u8 = 1 << 1;
/// Reply flag: the node may use its egress IPs.
pub const LEASE_HELD: u8 = 1 << 2;
/// Reply flag: the agent's local checks pass, or none are configured.
pub const LOCAL_CHECKS_OK: u8 = 1 << 3;

/// An age that has never begun.
pub const NEVER: u32 = u32::MAX;

/// Milliseconds from `since` until `now`, both on one clock, ns; saturating, and [`NEVER`] if `since`
/// is 0.
#[inline(always)]
pub const fn age_ms(since: u64, now: u64) -> u32 {
    if since == 0 {
        return NEVER;
    }
    let age = now.saturating_sub(since) / 1_000_000;
    if age >= NEVER as u64 {
        NEVER - 1
    } else {
        age as u32
    }
}

/// A probe or reply as it stands in a packet, verified or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProbePacket {
    base: StampBase,
    /// From offset 40 on: the sender's TTL and the TLV's header, then its value.
    tail: [Word; TAIL_WORDS],
    mac: Word,
}

const _: () = assert!(size_of::<ProbePacket>() == PROBE_LEN);
const _: () = assert!(align_of::<ProbePacket>() == 1);

// SAFETY: `repr(C)`, arrays of bytes.
unsafe impl Plain for ProbePacket {}

impl ProbePacket {
    const ZERO: Self = Self::from_bytes(&[0; PROBE_LEN]);

    /// Reads a packet from its bytes.
    pub const fn from_bytes(bytes: &[u8; PROBE_LEN]) -> Self {
        // SAFETY: both are 104 bytes of which any are a value.
        unsafe { core::mem::transmute(*bytes) }
    }

    /// The packet's bytes.
    pub const fn to_bytes(&self) -> [u8; PROBE_LEN] {
        // SAFETY: both are 104 bytes of which any are a value.
        unsafe { core::mem::transmute(*self) }
    }

    #[inline(always)]
    const fn get(&self, word: usize) -> u64 {
        self.tail[word].get()
    }

    #[inline(always)]
    const fn set(&mut self, word: usize, value: u64) {
        self.tail[word] = Word::new(value);
    }

    /// What the MAC covers, as SipHash takes it.
    #[inline(always)]
    const fn signed(&self) -> [u64; SIGNED_LEN / 8] {
        let [b0, b1, b2, b3, b4] = &self.base.words;
        let [t0, t1, t2, t3, t4, t5, t6] = &self.tail;
        [
            b0.to_sip(),
            b1.to_sip(),
            b2.to_sip(),
            b3.to_sip(),
            b4.to_sip(),
            t0.to_sip(),
            t1.to_sip(),
            t2.to_sip(),
            t3.to_sip(),
            t4.to_sip(),
            t5.to_sip(),
            t6.to_sip(),
        ]
    }

    fn tag(&self, key: &SipKey) -> u64 {
        let mut state = siphash::State::new(key);
        for word in self.signed() {
            state.absorb(word);
        }
        state.finish(SIGNED_LEN)
    }

    /// Whether the MAC is the one that `key` gives.
    pub fn verifies(&self, key: &SipKey) -> bool {
        self.mac.to_sip() == self.tag(key)
    }

    /// Writes the MAC.
    pub fn sign(&mut self, key: &SipKey) {
        self.mac = Word::from_sip(self.tag(key));
    }

    /// The sum of the packet's bytes, for the UDP checksum.
    #[inline(always)]
    pub const fn checksum(&self) -> Checksum {
        let mut sum = Checksum::new();
        self.base.add_to(&mut sum);
        let mut index = 0;
        while index < TAIL_WORDS {
            sum.add_u64(self.tail[index].to_native());
            index += 1;
        }
        sum.add_u64(self.mac.to_native());
        sum
    }

    /// TTL or hop limit with which the request arrived (offset 40).
    pub const fn sender_ttl(&self) -> u8 {
        (self.get(0) >> 56) as u8
    }

    /// TLV flags (offset 44).
    #[inline(always)]
    pub const fn tlv_flags(&self) -> u8 {
        (self.get(0) >> 24) as u8
    }

    /// TLV type (offset 45).
    #[inline(always)]
    pub const fn tlv_type(&self) -> u8 {
        (self.get(0) >> 16) as u8
    }

    /// TLV length (offset 46).
    #[inline(always)]
    pub const fn tlv_length(&self) -> u16 {
        self.get(0) as u16
    }

    /// Version of the TLV's value (offset 48).
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        (self.get(1) >> 56) as u8
    }

    /// Flags (offset 49).
    #[inline(always)]
    pub const fn flags(&self) -> u8 {
        (self.get(1) >> 48) as u8
    }

    /// Key id (offset 50).
    #[inline(always)]
    pub const fn key_id(&self) -> u16 {
        (self.get(1) >> 32) as u16
    }

    /// Lease time, ms (offset 52).
    #[inline(always)]
    pub const fn lease_ms(&self) -> u32 {
        self.get(1) as u32
    }

    /// Node id (offset 56).
    #[inline(always)]
    pub const fn node_id(&self) -> NodeId {
        NodeId(self.get(2))
    }

    /// Assignment epoch (offset 64).
    #[inline(always)]
    pub const fn epoch(&self) -> u64 {
        self.get(3)
    }

    /// Incarnation (offset 72).
    #[inline(always)]
    pub const fn incarnation(&self) -> u64 {
        self.get(4)
    }

    /// The node's boot clock, ns (offset 80).
    #[inline(always)]
    pub const fn node_time(&self) -> u64 {
        self.get(5)
    }

    /// A request's witness: its instance id, or 0 (offset 88).
    #[inline(always)]
    pub const fn prober(&self) -> u64 {
        self.get(6)
    }

    /// Beat age and tunnel age of a reply, ms (offsets 88 and 92).
    pub const fn ages_ms(&self) -> (u32, u32) {
        ((self.get(6) >> 32) as u32, self.get(6) as u32)
    }
}

/// What a prober asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the probe, unique among those outstanding to the node.
    pub sequence: u32,
    /// T1: the prober's wall clock at sending.
    pub timestamp: NtpTime,
    /// How far the prober's wall clock may be off (RFC 8762 section 4.2.1).
    pub error_estimate: u16,
    /// STAMP session id, free for the prober's use.
    pub ssid: u16,
    /// [`RENEW`], [`VOTE`].
    pub flags: u8,
    /// Which of the node's keys signs.
    pub key_id: u16,
    /// Lease time wanted, ms.
    pub lease_ms: u32,
    /// The node that is meant.
    pub node_id: NodeId,
    /// Oldest applied assignment epoch for which a RENEW or VOTE is meant.
    pub epoch_floor: u64,
    /// From the node's last reply, 0 before the first.
    pub incarnation: u64,
    /// From the node's last reply, ns, 0 before the first.
    pub node_time: u64,
    /// A witness's instance id, 0 for a controller.
    pub prober: u64,
}

impl Request {
    /// The signed packet.
    pub fn encode(&self, key: &SipKey) -> ProbePacket {
        let mut packet = ProbePacket::ZERO;
        packet.base = StampBase::request(
            self.sequence,
            self.timestamp,
            self.error_estimate,
            self.ssid,
        );
        packet.set(
            0,
            ((TLV_UNRECOGNISED as u64) << 24) | ((TLV_TYPE as u64) << 16) | TLV_LENGTH as u64,
        );
        packet.set(1, value_head(self.flags, self.key_id, self.lease_ms));
        packet.set(2, self.node_id.0);
        packet.set(3, self.epoch_floor);
        packet.set(4, self.incarnation);
        packet.set(5, self.node_time);
        packet.set(6, self.prober);
        packet.sign(key);
        packet
    }
}

#[inline(always)]
const fn value_head(flags: u8, key_id: u16, lease_ms: u32) -> u64 {
    ((VERSION as u64) << 56) | ((flags as u64) << 48) | ((key_id as u64) << 32) | lease_ms as u64
}

/// What a node puts into its reply beside what it copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// T2.
    pub received: NtpTime,
    /// T3.
    pub sent: NtpTime,
    /// How far the node's wall clock may be off.
    pub error_estimate: u16,
    /// TTL or hop limit with which the request arrived.
    pub ttl: u8,
    /// [`AGENT_UP`], [`DRAINING`], [`LEASE_HELD`], [`LOCAL_CHECKS_OK`].
    pub flags: u8,
    /// What is left of the lease, ms.
    pub lease_ms: u32,
    /// Assignment epoch that the node has applied.
    pub epoch: u64,
    /// Changes whenever the node's kernel state began anew.
    pub incarnation: u64,
    /// The node's boot clock, ns.
    pub node_time: u64,
    /// Since the agent's last beat, ms, or [`NEVER`].
    pub beat_age_ms: u32,
    /// Since the last tunnel packet, ms, or [`NEVER`].
    pub tunnel_age_ms: u32,
}

impl ProbePacket {
    /// The signed reply to a request, if the request's MAC is right.
    ///
    /// Both MACs are computed side by side: each is a chain in which every instruction waits for the
    /// one before, so that a processor has room for two at a time.
    #[inline(always)]
    pub fn answered(&self, answer: &Answer, key: &SipKey) -> Option<Self> {
        let mut reply = self.unsigned_reply(answer);
        let (mut expected, mut tag) = (siphash::State::new(key), siphash::State::new(key));
        let [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11] = self.signed();
        let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11] = reply.signed();
        macro_rules! absorb {
            ($($a:ident $b:ident),*) => {$( expected.absorb($a); tag.absorb($b); )*};
        }
        absorb!(a0 b0, a1 b1, a2 b2, a3 b3, a4 b4, a5 b5, a6 b6, a7 b7, a8 b8, a9 b9, a10 b10, a11 b11);
        if self.mac.to_sip() != expected.finish(SIGNED_LEN) {
            return None;
        }
        reply.mac = Word::from_sip(tag.finish(SIGNED_LEN));
        Some(reply)
    }

    /// Turns a request, whoever signed it, into its signed reply.
    pub fn answer(&mut self, answer: &Answer, key: &SipKey) {
        *self = self.unsigned_reply(answer);
        self.sign(key);
    }

    #[inline(always)]
    fn unsigned_reply(&self, answer: &Answer) -> Self {
        let mut reply = *self;
        reply
            .base
            .answer(answer.received, answer.sent, answer.error_estimate);
        reply.set(
            0,
            ((answer.ttl as u64) << 56) | ((TLV_TYPE as u64) << 16) | TLV_LENGTH as u64,
        );
        reply.set(1, value_head(answer.flags, self.key_id(), answer.lease_ms));
        reply.set(3, answer.epoch);
        reply.set(4, answer.incarnation);
        reply.set(5, answer.node_time);
        reply.set(
            6,
            ((answer.beat_age_ms as u64) << 32) | answer.tunnel_age_ms as u64,
        );
        reply
    }
}

/// A reply whose MAC is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's sequence number.
    pub sequence: u32,
    /// The request's session id.
    pub ssid: u16,
    /// The request's T1.
    pub sender_timestamp: NtpTime,
    /// Who answers.
    pub node_id: NodeId,
    /// Which key signs.
    pub key_id: u16,
    /// What the node says.
    pub answer: Answer,
}

/// Why bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyError {
    /// Not 104 bytes, or without our TLV, or of another version: somebody else's packet.
    NotOurs,
    /// A request, perhaps our own, sent back.
    IsRequest,
    /// The MAC is not the key's.
    WrongMac,
}

impl Reply {
    /// Reads a reply and checks its MAC. `key` finds the key by node and key id.
    pub fn decode(
        bytes: &[u8],
        key: impl FnOnce(NodeId, u16) -> Option<SipKey>,
    ) -> Result<Self, ReplyError> {
        let bytes = bytes.try_into().map_err(|_| ReplyError::NotOurs)?;
        let packet = ProbePacket::from_bytes(bytes);
        if packet.tlv_type() != TLV_TYPE
            || packet.tlv_length() != TLV_LENGTH
            || packet.version() != VERSION
        {
            return Err(ReplyError::NotOurs);
        }
        if packet.tlv_flags() != 0 {
            return Err(ReplyError::IsRequest);
        }
        let key = key(packet.node_id(), packet.key_id()).ok_or(ReplyError::WrongMac)?;
        if !packet.verifies(&key) {
            return Err(ReplyError::WrongMac);
        }
        let base = packet.base;
        let (beat_age_ms, tunnel_age_ms) = packet.ages_ms();
        Ok(Self {
            sequence: base.sequence(),
            ssid: base.ssid(),
            sender_timestamp: base.sender_timestamp(),
            node_id: packet.node_id(),
            key_id: packet.key_id(),
            answer: Answer {
                received: base.receive_timestamp(),
                sent: base.timestamp(),
                error_estimate: base.error_estimate(),
                ttl: packet.sender_ttl(),
                flags: packet.flags(),
                lease_ms: packet.lease_ms(),
                epoch: packet.epoch(),
                incarnation: packet.incarnation(),
                node_time: packet.node_time(),
                beat_age_ms,
                tunnel_age_ms,
            },
        })
    }
}
