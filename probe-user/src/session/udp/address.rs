//! Socket addresses as the kernel reads and writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::libc;

const FAMILY: usize = 2;
const V4_LENGTH: usize = size_of::<libc::sockaddr_in>();
const V6_LENGTH: usize = size_of::<libc::sockaddr_in6>();

/// A `sockaddr_in` or `sockaddr_in6`.
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    bytes: [u8; V6_LENGTH],
    length: usize,
}

impl RawAddress {
    pub(super) const EMPTY: Self = Self {
        bytes: [0; V6_LENGTH],
        length: 0,
    };
    /// Bytes that the kernel may write.
    pub(super) const CAPACITY: libc::socklen_t = V6_LENGTH as libc::socklen_t;

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    pub(super) fn length(&self) -> libc::socklen_t {
        self.length as libc::socklen_t
    }

    /// Takes note of how many bytes the kernel has written.
    pub(super) fn set_length(&mut self, length: libc::socklen_t) {
        self.length = (length as usize).min(V6_LENGTH);
    }

    pub(super) fn decode(&self) -> Option<SocketAddr> {
        let (family, rest) = self.bytes[..self.length].split_first_chunk::<FAMILY>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let ip: IpAddr = match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
            // The flow label comes before the address.
            libc::AF_INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        let mut raw = Self::EMPTY;
        let family = if address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        raw.bytes[..FAMILY].copy_from_slice(&(family as u16).to_ne_bytes());
        raw.bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                raw.bytes[4..8].copy_from_slice(&v4.ip().octets());
                raw.length = V4_LENGTH;
            }
            SocketAddr::V6(v6) => {
                raw.bytes[8..24].copy_from_slice(&v6.ip().octets());
                raw.bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                raw.length = V6_LENGTH;
            }
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["192.0.2.1:862", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::from(address).decode(), Some(address));
        }
    }

    #[test]
    fn a_cut_or_foreign_address_is_none() {
        let mut raw = RawAddress::from("[2001:db8::1]:1".parse::<SocketAddr>().unwrap());
        raw.set_length(23);
        assert_eq!(raw.decode(), None);
        assert_eq!(RawAddress::EMPTY.decode(), None);
    }
}
