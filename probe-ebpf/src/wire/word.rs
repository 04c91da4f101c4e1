//! Eight bytes of a packet. Packets are laid over packet memory, which has no alignment, and are
//! read, hashed and summed by whole words, which is what a kernel program can afford.

/// Eight bytes in packet order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Word([u8; 8]);

impl Word {
    pub(super) const ZERO: Self = Self([0; 8]);

    /// The word as the number that it is on the wire.
    #[inline(always)]
    pub(super) const fn get(self) -> u64 {
        u64::from_be_bytes(self.0)
    }

    #[inline(always)]
    pub(super) const fn new(value: u64) -> Self {
        Self(value.to_be_bytes())
    }

    /// The word as SipHash takes it: the first byte is the lowest.
    #[inline(always)]
    pub(super) const fn to_sip(self) -> u64 {
        u64::from_le_bytes(self.0)
    }

    #[inline(always)]
    pub(super) const fn from_sip(value: u64) -> Self {
        Self(value.to_le_bytes())
    }

    /// The word as loaded from memory, for the Internet checksum.
    #[inline(always)]
    pub(super) const fn to_native(self) -> u64 {
        u64::from_ne_bytes(self.0)
    }
}
