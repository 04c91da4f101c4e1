//! The S-BFD control packet without authentication (layout RFC 5880 section 4.1, rules RFC 7880).

use crate::checksum::Checksum;
use crate::frame::Plain;

/// Bytes of the packet.
pub const SBFD_LEN: usize = 24;

const WORDS: usize = 3;
const VERSION: u8 = 1;
const STATE_UP: u8 = 3 << 6;
const POLL: u8 = 1 << 5;
const FINAL: u8 = 1 << 4;
const AUTHENTICATED: u8 = 1 << 2;
const DEMAND: u8 = 1 << 1;
const MULTIPOINT: u8 = 1;
const DIAGNOSTIC_ADMIN_DOWN: u8 = 7;

/// A control packet as words in packet byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    words: [u64; WORDS],
}

// SAFETY: `repr(C)`, an array of integers.
unsafe impl Plain for Packet {}

impl Packet {
    /// Reads a packet from its bytes.
    pub fn from_bytes(bytes: &[u8; SBFD_LEN]) -> Self {
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Self { words }
    }

    /// The packet's bytes.
    pub fn to_bytes(&self) -> [u8; SBFD_LEN] {
        let mut bytes = [0; SBFD_LEN];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *chunk = word.to_ne_bytes();
        }
        bytes
    }

    #[inline(always)]
    const fn get(&self, word: usize) -> u64 {
        u64::from_be(self.words[word])
    }

    #[inline(always)]
    const fn flags(&self) -> u8 {
        (self.get(0) >> 48) as u8
    }

    #[inline(always)]
    const fn my_discriminator(&self) -> u32 {
        self.get(0) as u32
    }

    /// Your Discriminator (offset 8).
    #[inline(always)]
    pub const fn your_discriminator(&self) -> u32 {
        (self.get(1) >> 32) as u32
    }

    /// The checks of RFC 5880 section 6.8.6 that a reflector without authentication makes.
    #[inline(always)]
    pub const fn is_well_formed(&self) -> bool {
        let head = self.get(0);
        let version = (head >> 61) as u8;
        let multiplier = (head >> 40) as u8;
        let length = (head >> 32) as u8;
        version == VERSION
            && length as usize == SBFD_LEN
            && multiplier != 0
            && self.flags() & (AUTHENTICATED | MULTIPOINT) == 0
            && self.my_discriminator() != 0
    }

    /// Whether the Demand bit is set, as an initiator's is (RFC 7880 section 7.2.3).
    #[inline(always)]
    pub const fn is_demand(&self) -> bool {
        self.flags() & DEMAND != 0
    }

    /// Turns an initiator's packet into the reflector's: Up, or AdminDown where the monitored
    /// entity is temporarily out of service.
    #[inline(always)]
    pub const fn answer(&mut self, up: bool, min_rx_us: u32) {
        let head = self.get(0);
        let (diagnostic, mut flags) = if up {
            (0, STATE_UP)
        } else {
            (DIAGNOSTIC_ADMIN_DOWN, 0)
        };
        if self.flags() & POLL != 0 {
            flags |= FINAL;
        }
        let first = (VERSION << 5) | diagnostic;
        let multiplier_and_length = head & 0xffff_0000_0000;
        let (my, your) = (
            self.your_discriminator() as u64,
            self.my_discriminator() as u64,
        );
        let min_tx = self.get(1) & 0xffff_ffff;
        self.words[0] =
            (((first as u64) << 56) | ((flags as u64) << 48) | multiplier_and_length | my).to_be();
        self.words[1] = ((your << 32) | min_tx).to_be();
        self.words[2] = ((min_rx_us as u64) << 32).to_be();
    }

    /// The sum of the packet's bytes, for the UDP checksum.
    #[inline(always)]
    pub const fn checksum(&self) -> Checksum {
        Checksum::of_words(&self.words)
    }
}
