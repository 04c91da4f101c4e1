//! A prefix of addresses that may ask.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use probe_ebpf::maps::Prefix;
use serde::{Deserialize, Deserializer, de};

/// An address prefix such as `10.0.0.0/8`; without a length, one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    address: IpAddr,
    length: u8,
}

/// A text is no address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address prefix such as \"10.0.0.0/8\" or \"fd00::/8\"")]
pub struct NotAPrefix;

impl SourcePrefix {
    /// In the shape of the reflector's configuration: IPv4 mapped into IPv6.
    pub fn to_map(self) -> Prefix {
        let (octets, skipped) = match self.address {
            IpAddr::V4(address) => (address.to_ipv6_mapped().octets(), 96),
            IpAddr::V6(address) => (address.octets(), 0),
        };
        Prefix::new(octets, skipped + u32::from(self.length))
    }
}

impl FromStr for SourcePrefix {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotAPrefix)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().map_err(|_| NotAPrefix)?,
            None => longest,
        };
        if length > longest {
            return Err(NotAPrefix);
        }
        Ok(Self { address, length })
    }
}

impl fmt::Display for SourcePrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.length)
    }
}

impl<'de> Deserialize<'de> for SourcePrefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_ebpf::maps::Address;
    use std::net::Ipv4Addr;

    #[test]
    fn prefixes_are_read_with_or_without_a_length() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.1", "10.0.0.1/32"),
            ("fd00::/8", "fd00::/8"),
        ] {
            assert_eq!(text.parse::<SourcePrefix>().unwrap().to_string(), shown);
        }
        for refused in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "fd00::/-1",
            "eth0",
        ] {
            assert_eq!(
                refused.parse::<SourcePrefix>(),
                Err(NotAPrefix),
                "{refused}"
            );
        }
    }

    #[test]
    fn an_ipv4_prefix_contains_its_addresses_in_their_mapped_form() {
        let prefix = "10.1.0.0/16".parse::<SourcePrefix>().unwrap().to_map();
        let address = |text: &str| {
            Address::from_v4(u32::from_ne_bytes(
                text.parse::<Ipv4Addr>().unwrap().octets(),
            ))
        };
        assert!(prefix.contains(&address("10.1.255.1")));
        assert!(!prefix.contains(&address("10.2.0.1")));
    }
}
