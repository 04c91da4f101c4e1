//! The Internet checksum (RFC 1071), computed afresh: a packet from a local sender can carry a
//! partial one, which no incremental update would mend.

/// A one's-complement sum in the making. Words are added as loaded from the packet: the sum does
/// not depend on byte order as long as it is stored the way it was loaded.
#[derive(Clone, Copy, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// The sum of nothing.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds two bytes.
    #[inline(always)]
    pub const fn add_u16(&mut self, word: u16) {
        self.0 += word as u64;
    }

    /// Adds four bytes.
    #[inline(always)]
    pub const fn add_u32(&mut self, word: u32) {
        self.0 += word as u64;
    }

    /// Adds eight bytes.
    #[inline(always)]
    pub const fn add_u64(&mut self, word: u64) {
        self.0 += (word & 0xffff_ffff) + (word >> 32);
    }

    /// The checksum as it is stored in the packet.
    #[inline(always)]
    pub const fn finish(self) -> u16 {
        let mut sum = self.0;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }

    /// The same for UDP, where 0 would mean "no checksum" (RFC 768).
    #[inline(always)]
    pub const fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}
