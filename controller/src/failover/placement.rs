//! Bounded-load rendezvous hashing: of the candidates that have room, each address goes to the one
//! that scores highest for it. The same inputs give the same result everywhere.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use probe_ebpf::wire::NodeId;

/// A node that may take addresses of one gateway.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) node: Arc<str>,
    /// How many addresses of the gateway it has.
    load: usize,
}

/// The nodes that may take addresses of one gateway now.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    /// Those that have room.
    free: Vec<Seat>,
    /// Their hashes, in the same order: whoever looks for the best of ten thousand reads these alone.
    hashes: Vec<u64>,
    /// There are any, with or without room.
    any: bool,
    bound: usize,
    /// How many addresses will want a seat before any other that could stay where it is.
    pending: usize,
}

impl Seat {
    pub(super) const fn new(node: Arc<str>, load: usize) -> Self {
        Self { node, load }
    }
}

impl Seats {
    /// `addresses` is how many the gateway has: none of the seats gets more than its share of them
    /// rounded up, or `limit`. `pending` of them are waiting.
    pub(super) fn new(
        seats: Vec<Seat>,
        addresses: usize,
        limit: Option<usize>,
        pending: usize,
    ) -> Self {
        let share = addresses.div_ceil(seats.len().max(1));
        let bound = limit.map_or(share, |limit| limit.min(share));
        let any = !seats.is_empty();
        let mut free = seats;
        free.retain(|seat| seat.load < bound);
        let hash = |seat: &Seat| mix(NodeId::of(&seat.node).0);
        Self {
            hashes: free.iter().map(hash).collect(),
            free,
            any,
            bound,
            pending,
        }
    }

    /// Whether nobody may take anything, full or not.
    pub(super) const fn is_empty(&self) -> bool {
        !self.any
    }

    /// Keeps room for an address that could stay where it is, if there is any at `wish`, or with
    /// anyone but `owner`.
    pub(super) fn reserve(&mut self, owner: &str, wish: Option<&str>) -> bool {
        let wanted = |seat: &&Seat| wish.map_or(&*seat.node != owner, |wish| &*seat.node == wish);
        let room = |seat: &Seat| self.bound - seat.load;
        let free: usize = self.free.iter().filter(wanted).map(room).sum();
        let found = free > self.pending;
        self.pending += usize::from(found);
        found
    }

    /// Gives `address` to `wish` if that has room, else to the one with the highest score; `None`:
    /// nobody has room.
    pub(super) fn take(&mut self, address: IpAddr, wish: Option<&str>) -> Option<Arc<str>> {
        let wished = wish.and_then(|wish| self.free.iter().position(|seat| &*seat.node == wish));
        let index = wished.or_else(|| self.best(address_hash(address)))?;
        let seat = &mut self.free[index];
        seat.load += 1;
        let node = seat.node.clone();
        if seat.load >= self.bound {
            self.free.swap_remove(index);
            self.hashes.swap_remove(index);
        }
        Some(node)
    }

    /// The one with the highest score; of equals, the one with the highest name.
    fn best(&self, hash: u64) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        for (index, other) in self.hashes.iter().enumerate() {
            let score = score(hash, *other);
            let wins = |(highest, holder): (u64, usize)| {
                score > highest
                    || score == highest && self.free[index].node > self.free[holder].node
            };
            if best.is_none_or(wins) {
                best = Some((score, index));
            }
        }
        best.map(|(_, index)| index)
    }
}

/// How well two things go together; both hashes must be mixed well already.
pub(super) fn score(one: u64, other: u64) -> u64 {
    mix(one ^ other)
}

/// An egress IP's hash.
pub(super) fn address_hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
    }
}

/// A source's hash.
pub(super) fn source_hash(source: IpNet) -> u64 {
    mix(address_hash(source.network()) ^ u64::from(source.prefix_len()))
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014), after a step of its generator so that zero does not stay zero.
fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn seats(count: usize, addresses: usize, limit: Option<usize>) -> Seats {
        let seat = |index| Seat::new(format!("n{index}").into(), 0);
        Seats::new((0..count).map(seat).collect(), addresses, limit, 0)
    }

    fn address(index: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + index).into())
    }

    fn owners(seats: &mut Seats, addresses: u32) -> Vec<Arc<str>> {
        (0..addresses)
            .map(|index| seats.take(address(index), None).unwrap())
            .collect()
    }

    #[test]
    fn nobody_gets_more_than_the_share_rounded_up() {
        for (count, addresses) in [(1, 5), (3, 10), (7, 7), (20, 1000)] {
            let mut loads: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            for owner in owners(&mut seats(count, addresses, None), addresses as u32) {
                *loads.entry(owner).or_default() += 1;
            }
            let most = loads.values().max().unwrap();
            assert!(
                *most <= addresses.div_ceil(count),
                "{count} {addresses}: {loads:?}"
            );
        }
    }

    #[test]
    fn one_more_node_changes_few_choices() {
        let before = owners(&mut seats(20, 1000, Some(1000)), 1000);
        let after = owners(&mut seats(21, 1000, Some(1000)), 1000);
        let changed = before
            .iter()
            .zip(&after)
            .filter(|(one, other)| one != other)
            .count();
        assert!((1..200).contains(&changed), "{changed}");
    }

    #[test]
    fn the_order_of_the_seats_changes_nothing() {
        let mut forwards = seats(10, 50, None);
        let mut backwards = forwards.clone();
        backwards.free.reverse();
        backwards.hashes.reverse();
        assert_eq!(owners(&mut forwards, 50), owners(&mut backwards, 50));
    }

    #[test]
    fn a_limit_leaves_addresses_over() {
        let mut seats = seats(2, 3, Some(1));
        owners(&mut seats, 2);
        assert_eq!(seats.take(address(9), None), None);
    }

    #[test]
    fn room_is_reserved_once_and_not_with_the_owner() {
        let mut seats = seats(2, 2, None);
        assert!(seats.reserve("n0", None));
        assert!(!seats.reserve("n0", None));
        assert!(seats.reserve("elsewhere", None));
        assert!(!seats.reserve("elsewhere", Some("n1")));
    }

    #[test]
    fn a_wish_is_heard_while_there_is_room() {
        let mut seats = seats(3, 3, None);
        let wish = Some("n2");
        assert_eq!(&*seats.take(address(1), wish).unwrap(), "n2");
        assert_ne!(&*seats.take(address(2), wish).unwrap(), "n2");
    }
}
