//! The 64-bit NTP timestamp format (RFC 5905 section 6) that STAMP uses when error estimate Z = 0.

/// Seconds between 1900 (NTP) and 1970 (Unix).
const UNIX_EPOCH: u64 = 2_208_988_800;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An error estimate that claims nothing: unsynchronised (S = 0), NTP format (Z = 0), largest
/// scale, multiplier 1 (RFC 4656 section 4.1.2 forbids a multiplier of 0).
pub const UNKNOWN_ERROR: u16 = 0x3f01;

/// Seconds since 1900, modulo 2^32, in the high half; the fraction of a second in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// From nanoseconds since the Unix epoch. Truncates to the format's 0.23 ns.
    #[inline(always)]
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        let seconds = nanos / NANOS_PER_SECOND;
        let rest = nanos - seconds * NANOS_PER_SECOND;
        // 2^64 / 10^9, so that no second division is needed. The product stays below 2^64.
        let fraction = (rest * 18_446_744_073) >> 32;
        Self(((seconds + UNIX_EPOCH) << 32) | fraction)
    }

    /// Nanoseconds from `earlier` to `self`; negative when `self` comes first. Right as long as
    /// the two are less than 68 years apart.
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        let ticks = self.0.wrapping_sub(earlier.0) as i64;
        ((ticks as i128 * NANOS_PER_SECOND as i128) >> 32) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unix_epoch_is_second_2208988800() {
        assert_eq!(NtpTime::from_unix_nanos(0).0 >> 32, 2_208_988_800);
        assert_eq!(NtpTime::from_unix_nanos(500_000_000).0 as u32 >> 16, 0x7fff);
    }

    proptest! {
        #[test]
        fn differences_survive_the_format(start in 0..u64::MAX / 2, delta in 0..10_000_000_000u64) {
            let difference = NtpTime::from_unix_nanos(start + delta)
                .nanos_since(NtpTime::from_unix_nanos(start));
            prop_assert!((difference - delta as i64).abs() <= 2);
        }
    }
}
