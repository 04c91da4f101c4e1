//! Which addresses a gateway has, as people write them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// How many addresses a gateway may have: each is announced, reported and shown on its own.
const LARGEST: usize = 4096;

/// Why a pool is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// It cannot be read.
    #[error(
        "{0:?} is not an address, a range such as 10.0.0.10-10.0.0.20, or a prefix such as \
         10.0.0.16/28"
    )]
    Syntax(String),
    /// A prefix with bits set beyond its length: it could mean two things.
    #[error("{0} has bits set beyond its length: write {1} or the one address")]
    HostBits(String, IpNet),
    /// A range that ends before it starts, or in another family.
    #[error("{0} ends before it starts, or mixes IPv4 and IPv6")]
    Backwards(String),
    /// More addresses than are accepted.
    #[error("{0} makes more than {LARGEST} addresses")]
    TooLarge(String),
    /// An address that no node can own.
    #[error("{0} is not the address of one host that others can reach")]
    NotUnicast(IpAddr),
    /// The same address twice.
    #[error("{0} contains {1}, which is there already")]
    Twice(String, IpAddr),
}

/// The egress IPs of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool(BTreeSet<IpAddr>);

impl Pool {
    /// Reads single addresses, ranges (first-last) and prefixes. Every address of a prefix belongs
    /// to the pool: it is a part of somebody's subnet, not a subnet.
    ///
    /// # Errors
    ///
    /// Names the text that is wrong.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, PoolError> {
        let mut pool = BTreeSet::new();
        for text in texts.iter().map(AsRef::as_ref) {
            let (first, last) = bounds(text)?;
            for address in addresses(first, last) {
                if pool.len() == LARGEST {
                    return Err(PoolError::TooLarge(text.to_owned()));
                }
                check_unicast(address)?;
                if !pool.insert(address) {
                    return Err(PoolError::Twice(text.to_owned(), address));
                }
            }
        }
        Ok(Self(pool))
    }

    /// The addresses, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().copied()
    }

    /// The same addresses as the fewest prefixes.
    pub fn prefixes(&self) -> Vec<IpNet> {
        IpNet::aggregate(&self.iter().map(IpNet::from).collect())
    }

    /// Whether the address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn bounds(text: &str) -> Result<(IpAddr, IpAddr), PoolError> {
    let syntax = || PoolError::Syntax(text.to_owned());
    let address = |part: &str| {
        let address: IpAddr = part.trim().parse().map_err(|_| syntax())?;
        Ok(address.to_canonical())
    };
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (address(first)?, address(last)?);
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return Err(PoolError::Backwards(text.to_owned()));
        }
        Ok((first, last))
    } else if text.contains('/') {
        let prefix: IpNet = text.trim().parse().map_err(|_| syntax())?;
        if prefix.trunc() != prefix {
            return Err(PoolError::HostBits(text.to_owned(), prefix.trunc()));
        }
        Ok((prefix.network(), prefix.broadcast()))
    } else {
        let address = address(text)?;
        Ok((address, address))
    }
}

/// From `first` to `last`, however many these are.
fn addresses(first: IpAddr, last: IpAddr) -> Box<dyn Iterator<Item = IpAddr>> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Box::new(
            (first.to_bits()..=last.to_bits()).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        ),
        (first, last) => {
            let bits = |address| match address {
                IpAddr::V4(v4) => u128::from(v4.to_bits()),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            let v6 = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
            Box::new((bits(first)..=bits(last)).map(v6))
        }
    }
}

fn check_unicast(address: IpAddr) -> Result<(), PoolError> {
    let strange = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if strange || address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(PoolError::NotUnicast(address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pool: &Pool) -> Vec<String> {
        pool.iter().map(|address| address.to_string()).collect()
    }

    fn refusal(texts: &[&str]) -> String {
        Pool::parse(texts).unwrap_err().to_string()
    }

    #[test]
    fn addresses_ranges_and_prefixes_of_both_families_make_a_pool() {
        let pool = Pool::parse(&[
            "10.0.0.9",
            "10.0.0.1-10.0.0.3",
            "fd00::4/127",
            "10.0.0.16/31",
        ])
        .unwrap();
        let expected = [
            "10.0.0.1",
            "10.0.0.2",
            "10.0.0.3",
            "10.0.0.9",
            "10.0.0.16",
            "10.0.0.17",
            "fd00::4",
            "fd00::5",
        ];
        assert_eq!(texts(&pool), expected);
    }

    #[test]
    fn every_address_of_a_prefix_belongs_to_the_pool() {
        assert_eq!(Pool::parse(&["fd78::100/124"]).unwrap().len(), 16);
        assert_eq!(Pool::parse(&["10.0.0.0/24"]).unwrap().len(), 256);
    }

    #[test]
    fn what_is_not_an_address_range_or_prefix_is_refused_by_name() {
        for text in [
            "",
            "10.0.0",
            "10.0.0.1-",
            "10.0.0.0/33",
            "a-b",
            "10.0.0.1-10.0.0.2-3",
        ] {
            assert!(refusal(&["10.0.0.1", text]).contains(text), "{text}");
        }
    }

    #[test]
    fn a_prefix_with_host_bits_is_refused_with_both_readings() {
        let error = refusal(&["10.0.0.100/28"]);
        assert!(
            error.contains("10.0.0.100/28") && error.contains("10.0.0.96/28"),
            "{error}"
        );
    }

    #[test]
    fn ranges_run_forwards_within_a_family() {
        for text in ["10.0.0.3-10.0.0.1", "10.0.0.1-fd00::1"] {
            assert!(refusal(&[text]).contains(text));
        }
    }

    #[test]
    fn a_pool_is_told_as_the_fewest_prefixes() {
        let pool = Pool::parse(&["10.0.0.3-10.0.0.8", "10.0.0.9", "fd00::1"]).unwrap();
        let prefixes = pool.prefixes();
        let text: Vec<_> = prefixes.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            ["10.0.0.3/32", "10.0.0.4/30", "10.0.0.8/31", "fd00::1/128"]
        );
    }

    #[test]
    fn pools_are_bounded_without_being_counted_out() {
        assert!(refusal(&["fd00::/8"]).contains("fd00::/8"));
        assert!(refusal(&["10.0.0.0/8"]).contains("4096"));
    }

    #[test]
    fn addresses_that_no_node_can_own_are_refused() {
        for text in [
            "0.0.0.0",
            "224.0.0.1",
            "127.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "::1",
        ] {
            assert!(refusal(&[text]).contains(text), "{text}");
        }
    }

    #[test]
    fn an_address_that_is_there_twice_is_refused_in_any_form() {
        assert!(refusal(&["10.0.0.1", "10.0.0.0/30"]).contains("10.0.0.1"));
        assert!(refusal(&["10.0.0.1", "::ffff:10.0.0.1"]).contains("10.0.0.1"));
    }
}
