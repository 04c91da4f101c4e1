//! Sources that must not leave by an interface: they are a gateway's, and the node does not have the
//! address that they would leave from.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Addresses from `first` to `last`, both included; of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: IpAddr,
    pub(crate) last: IpAddr,
}

/// What becomes of a source's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It leaves from an address that the node has.
    Steered,
    /// It does not leave.
    HeldBack,
}

/// The addresses that are held back, where the longest prefix decides: ascending, with gaps between.
pub(super) fn held_back(sources: &BTreeMap<IpNet, Fate>) -> Vec<Range> {
    let mut ranges = Vec::new();
    // A prefix is followed by all that it contains.
    for (source, _) in sources.iter().filter(|(_, fate)| **fate == Fate::HeldBack) {
        let mut next = Some(number(source.network()));
        let inside = sources.range(source..).skip(1);
        for (inner, fate) in inside.take_while(|(inner, _)| source.contains(*inner)) {
            let Some(from) = next.filter(|_| *fate == Fate::Steered) else {
                continue;
            };
            let (first, last) = (number(inner.network()), number(inner.broadcast()));
            if from < first {
                ranges.push((source.addr().is_ipv6(), from, first - 1));
            }
            if from <= last {
                next = last.checked_add(1);
            }
        }
        let last = number(source.broadcast());
        if let Some(from) = next.filter(|from| *from <= last) {
            ranges.push((source.addr().is_ipv6(), from, last));
        }
    }
    ranges.sort_unstable();
    united(&ranges)
}

/// What is held back within what is held back, or borders on it, is one range.
fn united(ranges: &[(bool, u128, u128)]) -> Vec<Range> {
    let mut all: Vec<(bool, u128, u128)> = Vec::new();
    for &(ipv6, first, last) in ranges {
        match all.last_mut() {
            Some((same, _, end)) if *same == ipv6 && first <= end.saturating_add(1) => {
                *end = last.max(*end);
            }
            _ => all.push((ipv6, first, last)),
        }
    }
    let range = |(ipv6, first, last)| Range {
        first: address(ipv6, first),
        last: address(ipv6, last),
    };
    all.into_iter().map(range).collect()
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn address(ipv6: bool, number: u128) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if !ipv6 => Ipv4Addr::from(number).into(),
        _ => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(sources: &[(&str, Fate)]) -> Vec<String> {
        let sources = sources
            .iter()
            .map(|(source, fate)| (source.parse().unwrap(), *fate));
        let text = |range: &Range| format!("{}-{}", range.first, range.last);
        held_back(&sources.collect()).iter().map(text).collect()
    }

    #[test]
    fn what_leaves_is_left_out_of_what_does_not() {
        let all = ranges(&[
            ("0.0.0.0/0", Fate::HeldBack),
            ("10.1.0.0/16", Fate::Steered),
            ("255.255.0.0/16", Fate::Steered),
        ]);
        assert_eq!(all, ["0.0.0.0-10.0.255.255", "10.2.0.0-255.254.255.255"]);
    }

    #[test]
    fn the_longest_prefix_decides_however_deep() {
        let all = ranges(&[
            ("10.0.0.0/8", Fate::HeldBack),
            ("10.0.0.0/9", Fate::Steered),
            ("10.0.0.0/16", Fate::HeldBack),
            ("10.0.0.0/24", Fate::Steered),
        ]);
        assert_eq!(all, ["10.0.1.0-10.0.255.255", "10.128.0.0-10.255.255.255"]);
    }

    #[test]
    fn neighbours_and_what_is_inside_become_one_range() {
        let all = ranges(&[
            ("10.0.0.0/24", Fate::HeldBack),
            ("10.0.0.128/25", Fate::HeldBack),
            ("10.0.1.0/24", Fate::HeldBack),
            ("10.9.0.0/16", Fate::Steered),
        ]);
        assert_eq!(all, ["10.0.0.0-10.0.1.255"]);
    }

    #[test]
    fn families_stay_apart_and_may_be_held_back_as_a_whole() {
        let all = ranges(&[("0.0.0.0/0", Fate::HeldBack), ("::/0", Fate::HeldBack)]);
        let everything = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(
            all,
            [
                "0.0.0.0-255.255.255.255".to_owned(),
                format!("::-{everything}")
            ]
        );
    }
}
