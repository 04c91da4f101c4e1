//! The STAMP base packet, unauthenticated (RFC 8762 section 4.2.1, session id of RFC 8972).

use super::ntp::NtpTime;
use crate::frame::Plain;

/// Bytes of the base packet.
pub const BASE_LEN: usize = 44;

const WORDS: usize = 5;
const SSID_MASK: u64 = 0xffff;

/// The base packet's first 40 bytes, as words in packet byte order. The last four hold the
/// sender's TTL, and share a word with the first TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StampBase {
    words: [u64; WORDS],
}

// SAFETY: `repr(C)`, an array of integers.
unsafe impl Plain for StampBase {}

impl StampBase {
    /// Bytes that this type covers.
    pub const LEN: usize = WORDS * 8;

    /// A sender's packet.
    #[inline(always)]
    pub const fn request(sequence: u32, sent: NtpTime, error_estimate: u16, ssid: u16) -> Self {
        let mut base = Self { words: [0; WORDS] };
        base.set_head(sequence, sent, error_estimate, ssid);
        base
    }

    /// From the words of a packet.
    #[inline(always)]
    pub const fn from_words(words: [u64; WORDS]) -> Self {
        Self { words }
    }

    /// The words, in packet byte order.
    #[inline(always)]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    #[inline(always)]
    const fn get(&self, word: usize) -> u64 {
        u64::from_be(self.words[word])
    }

    #[inline(always)]
    const fn set_head(&mut self, sequence: u32, time: NtpTime, error_estimate: u16, ssid: u16) {
        self.words[0] = (((sequence as u64) << 32) | (time.0 >> 32)).to_be();
        self.words[1] = ((time.0 << 32) | ((error_estimate as u64) << 16) | ssid as u64).to_be();
    }

    /// Turns a request into a stateless reflector's reply.
    #[inline(always)]
    pub const fn answer(&mut self, received: NtpTime, sent: NtpTime, error_estimate: u16) {
        let (sequence, ssid) = (self.sequence(), self.ssid());
        // The sender's sequence number, timestamp and error estimate stand in the reply in the
        // same order as in the request, 24 bytes on.
        self.words[3] = self.words[0];
        self.words[4] = self.words[1] & !SSID_MASK.to_be();
        self.set_head(sequence, sent, error_estimate, ssid);
        self.words[2] = received.0.to_be();
    }

    /// Sequence number (offset 0).
    #[inline(always)]
    pub const fn sequence(&self) -> u32 {
        (self.get(0) >> 32) as u32
    }

    /// Timestamp (offset 4): T1 in a request, T3 in a reply.
    #[inline(always)]
    pub const fn timestamp(&self) -> NtpTime {
        NtpTime((self.get(0) << 32) | (self.get(1) >> 32))
    }

    /// Error estimate (offset 12).
    #[inline(always)]
    pub const fn error_estimate(&self) -> u16 {
        (self.get(1) >> 16) as u16
    }

    /// Session id (offset 14).
    #[inline(always)]
    pub const fn ssid(&self) -> u16 {
        self.get(1) as u16
    }

    /// Receive timestamp T2 (offset 16).
    #[inline(always)]
    pub const fn receive_timestamp(&self) -> NtpTime {
        NtpTime(self.get(2))
    }

    /// The sender's own sequence number, in a reply (offset 24).
    #[inline(always)]
    pub const fn sender_sequence(&self) -> u32 {
        (self.get(3) >> 32) as u32
    }

    /// The sender's own timestamp, in a reply (offset 28).
    #[inline(always)]
    pub const fn sender_timestamp(&self) -> NtpTime {
        NtpTime((self.get(3) << 32) | (self.get(4) >> 32))
    }

    /// A whole base packet with a TTL field of `ttl`.
    pub fn to_bytes(&self, ttl: u8) -> [u8; BASE_LEN] {
        let mut bytes = [0; BASE_LEN];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *chunk = word.to_ne_bytes();
        }
        bytes[Self::LEN] = ttl;
        bytes
    }

    /// Reads the base packet at the start of a payload, and its TTL field. `None`: too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, u8)> {
        let bytes: &[u8; BASE_LEN] = bytes.first_chunk()?;
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Some((Self { words }, bytes[Self::LEN]))
    }
}
