//! Control messages that come with a datagram: when it arrived, and how many were dropped.

use std::time::Duration;

use nix::libc;

const HEADER: usize = size_of::<libc::cmsghdr>();
const WORD: usize = size_of::<usize>();
/// Room for a timestamp and a drop counter, and to spare.
const CAPACITY: usize = 128;

/// A buffer of control messages, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Control {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Control {
    pub(super) const EMPTY: Self = Self {
        bytes: [0; CAPACITY],
        length: 0,
    };
    /// Bytes that the kernel may write.
    pub(super) const CAPACITY: usize = CAPACITY;

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Takes note of how many bytes the kernel has written. The type is the C library's choice.
    pub(super) fn set_length(&mut self, length: impl TryInto<usize>) {
        self.length = length.try_into().unwrap_or(0).min(CAPACITY);
    }

    /// When the datagram arrived, since the Unix epoch.
    pub(super) fn timestamp(&self) -> Option<Duration> {
        let data = self.find(libc::SCM_TIMESTAMPNS)?;
        let (seconds, rest) = data.split_first_chunk::<{ size_of::<libc::time_t>() }>()?;
        let nanos = rest.first_chunk::<{ size_of::<libc::c_long>() }>()?;
        let seconds = u64::try_from(libc::time_t::from_ne_bytes(*seconds)).ok()?;
        let nanos = u64::try_from(libc::c_long::from_ne_bytes(*nanos)).ok()?;
        Some(Duration::from_secs(seconds) + Duration::from_nanos(nanos))
    }

    /// How many datagrams the socket has dropped for want of room, modulo 2^32. `None`: none yet.
    pub(super) fn dropped(&self) -> Option<u32> {
        let data = self.find(libc::SO_RXQ_OVFL)?;
        Some(u32::from_ne_bytes(*data.first_chunk()?))
    }

    /// The data of the first message of level `SOL_SOCKET` and type `kind`.
    fn find(&self, kind: libc::c_int) -> Option<&[u8]> {
        let mut rest = &self.bytes[..self.length];
        loop {
            let header = rest.get(..HEADER)?;
            let (length, level_and_type) = header.split_first_chunk::<WORD>()?;
            // To the kernel `cmsg_len` is a `size_t`, whatever a C library calls it.
            let length = usize::from_ne_bytes(*length);
            let (level, message) = level_and_type.split_first_chunk::<4>()?;
            let level = i32::from_ne_bytes(*level);
            let message = i32::from_ne_bytes(*message.first_chunk()?);
            let data = rest.get(HEADER..length)?;
            if level == libc::SOL_SOCKET && message == kind {
                return Some(data);
            }
            rest = rest.get(length.next_multiple_of(WORD)..)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(libc::SOL_SOCKET.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn control(bytes: &[u8]) -> Control {
        let mut control = Control::EMPTY;
        control.bytes[..bytes.len()].copy_from_slice(bytes);
        control.set_length(bytes.len());
        control
    }

    fn both() -> Vec<u8> {
        let time = [7_i64.to_ne_bytes(), 5_i64.to_ne_bytes()].concat();
        [
            message(libc::SCM_TIMESTAMPNS, &time),
            message(libc::SO_RXQ_OVFL, &9_u32.to_ne_bytes()),
        ]
        .concat()
    }

    #[test]
    fn both_messages_are_found() {
        let control = control(&both());
        assert_eq!(control.timestamp(), Some(Duration::new(7, 5)));
        assert_eq!(control.dropped(), Some(9));
    }

    #[test]
    fn cut_messages_are_none() {
        let whole = both();
        for length in 0..whole.len() {
            let control = control(&whole[..length]);
            assert!(control.timestamp().is_none() || length >= HEADER + 16);
            assert!(control.dropped().is_none() || length >= HEADER + 16 + HEADER + 4);
        }
    }

    #[test]
    fn a_message_that_claims_no_length_ends_the_search() {
        assert_eq!(control(&[0; 64]).timestamp(), None);
    }
}
