//! The STAMP base packet, unauthenticated (RFC 8762 section 4.2.1, session id of RFC 8972).

use super::ntp::NtpTime;
use super::word::Word;
use crate::checksum::Checksum;
use crate::frame::Plain;

/// Bytes of the base packet.
pub const BASE_LEN: usize = 44;

const SSID_MASK: u64 = 0xffff;

/// The base packet's first 40 bytes. The last four hold the sender's TTL, and share a word with
/// the first TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StampBase {
    pub(super) words: [Word; 5],
}

const _: () = assert!(size_of::<StampBase>() == StampBase::LEN);

// SAFETY: `repr(C)`, an array of bytes.
unsafe impl Plain for StampBase {}

impl StampBase {
    /// Bytes that this type covers.
    pub const LEN: usize = 40;

    /// A sender's packet.
    pub const fn request(sequence: u32, sent: NtpTime, error_estimate: u16, ssid: u16) -> Self {
        let mut base = Self {
            words: [Word::ZERO; 5],
        };
        base.set_head(sequence, sent, error_estimate, ssid);
        base
    }

    #[inline(always)]
    const fn set_head(&mut self, sequence: u32, time: NtpTime, error_estimate: u16, ssid: u16) {
        self.words[0] = Word::new(((sequence as u64) << 32) | (time.0 >> 32));
        self.words[1] = Word::new((time.0 << 32) | ((error_estimate as u64) << 16) | ssid as u64);
    }

    /// Turns a request into a stateless reflector's reply.
    #[inline(always)]
    pub const fn answer(&mut self, received: NtpTime, sent: NtpTime, error_estimate: u16) {
        let (sequence, ssid) = (self.sequence(), self.ssid());
        // The sender's sequence number, timestamp and error estimate stand in the reply in the
        // same order as in the request, 24 bytes on.
        self.words[3] = self.words[0];
        self.words[4] = Word::new(self.words[1].get() & !SSID_MASK);
        self.words[2] = Word::new(received.0);
        self.set_head(sequence, sent, error_estimate, ssid);
    }

    /// Sequence number (offset 0).
    #[inline(always)]
    pub const fn sequence(&self) -> u32 {
        (self.words[0].get() >> 32) as u32
    }

    /// Timestamp (offset 4): T1 in a request, T3 in a reply.
    #[inline(always)]
    pub const fn timestamp(&self) -> NtpTime {
        NtpTime((self.words[0].get() << 32) | (self.words[1].get() >> 32))
    }

    /// Error estimate (offset 12).
    #[inline(always)]
    pub const fn error_estimate(&self) -> u16 {
        (self.words[1].get() >> 16) as u16
    }

    /// Session id (offset 14).
    #[inline(always)]
    pub const fn ssid(&self) -> u16 {
        self.words[1].get() as u16
    }

    /// Receive timestamp T2 (offset 16).
    #[inline(always)]
    pub const fn receive_timestamp(&self) -> NtpTime {
        NtpTime(self.words[2].get())
    }

    /// The sender's own sequence number, in a reply (offset 24).
    #[inline(always)]
    pub const fn sender_sequence(&self) -> u32 {
        (self.words[3].get() >> 32) as u32
    }

    /// The sender's own timestamp, in a reply (offset 28).
    #[inline(always)]
    pub const fn sender_timestamp(&self) -> NtpTime {
        NtpTime((self.words[3].get() << 32) | (self.words[4].get() >> 32))
    }

    /// Adds the bytes to a checksum.
    #[inline(always)]
    pub(super) const fn add_to(&self, sum: &mut Checksum) {
        let mut index = 0;
        while index < self.words.len() {
            sum.add_u64(self.words[index].to_native());
            index += 1;
        }
    }

    /// A whole base packet with a TTL field of `ttl`.
    pub fn to_bytes(&self, ttl: u8) -> [u8; BASE_LEN] {
        let mut bytes = [0; BASE_LEN];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *chunk = word.to_native().to_ne_bytes();
        }
        bytes[Self::LEN] = ttl;
        bytes
    }

    /// Reads the base packet at the start of a payload, and its TTL field. `None`: too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, u8)> {
        let bytes: &[u8; BASE_LEN] = bytes.first_chunk()?;
        let mut words = [Word::ZERO; 5];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = Word::new(u64::from_be_bytes(*chunk));
        }
        Some((Self { words }, bytes[Self::LEN]))
    }
}
