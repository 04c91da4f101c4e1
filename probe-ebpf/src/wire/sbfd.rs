//! The S-BFD control packet without authentication (layout RFC 5880 section 4.1, rules RFC 7880).

use super::word::Word;
use crate::checksum::Checksum;
use crate::frame::Plain;

/// Bytes of the packet.
pub const SBFD_LEN: usize = 24;

const VERSION: u8 = 1;
const STATE_UP: u8 = 3 << 6;
const POLL: u8 = 1 << 5;
const FINAL: u8 = 1 << 4;
const AUTHENTICATED: u8 = 1 << 2;
const DEMAND: u8 = 1 << 1;
const MULTIPOINT: u8 = 1;
const DIAGNOSTIC_ADMIN_DOWN: u8 = 7;

/// A control packet as it stands in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    words: [Word; 3],
}

const _: () = assert!(size_of::<Packet>() == SBFD_LEN);

// SAFETY: `repr(C)`, an array of bytes.
unsafe impl Plain for Packet {}

impl Packet {
    /// Reads a packet from its bytes.
    pub const fn from_bytes(bytes: &[u8; SBFD_LEN]) -> Self {
        // SAFETY: both are 24 bytes of which any are a value.
        unsafe { core::mem::transmute(*bytes) }
    }

    /// The packet's bytes.
    pub const fn to_bytes(&self) -> [u8; SBFD_LEN] {
        // SAFETY: both are 24 bytes of which any are a value.
        unsafe { core::mem::transmute(*self) }
    }

    #[inline(always)]
    const fn flags(&self) -> u8 {
        (self.words[0].get() >> 48) as u8
    }

    #[inline(always)]
    const fn my_discriminator(&self) -> u32 {
        self.words[0].get() as u32
    }

    /// Your Discriminator (offset 8).
    #[inline(always)]
    pub const fn your_discriminator(&self) -> u32 {
        (self.words[1].get() >> 32) as u32
    }

    /// The checks of RFC 5880 section 6.8.6 that a reflector without authentication makes.
    #[inline(always)]
    pub const fn is_well_formed(&self) -> bool {
        let head = self.words[0].get();
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
        let head = self.words[0].get();
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
        let second = (your << 32) | (self.words[1].get() & 0xffff_ffff);
        self.words[0] =
            Word::new(((first as u64) << 56) | ((flags as u64) << 48) | multiplier_and_length | my);
        self.words[1] = Word::new(second);
        self.words[2] = Word::new((min_rx_us as u64) << 32);
    }

    /// The sum of the packet's bytes, for the UDP checksum.
    #[inline(always)]
    pub const fn checksum(&self) -> Checksum {
        let mut sum = Checksum::new();
        let mut index = 0;
        while index < self.words.len() {
            sum.add_u64(self.words[index].to_native());
            index += 1;
        }
        sum
    }
}
