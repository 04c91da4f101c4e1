//! The packet filter: one nftables table of our own, `inet pulsepath`, replaced as a whole.
//!
//! It is written over nfnetlink with `netlink-packet-netfilter`, of the same family (rust-netlink,
//! MIT) as `rtnetlink`, which the agent uses anyway. Of the others, `nftables` needs the `nft`
//! program in the image and a process per change, in the middle of a failover; `nftnl` needs two C
//! libraries and cannot say `jhash`; `rustables` is GPL. Expressions that the crate does not know
//! by name (`nat`, `hash`) it takes as plain attributes: see [`expression`].
//!
//! The table's three chains:
//! - `steer` (nat, postrouting) goes before the usual source NAT priority, since the first NAT chain
//!   that decides is the only one;
//! - `guard` (filter, input) drops what is meant for the node's own stack at an egress IP;
//! - `hold` (filter, forward) drops what would leave from another address than an egress IP.

mod expression;
mod table;
mod watch;

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::io;
use std::net::IpAddr;

use netlink_packet_netfilter::NetfilterMessageInner;
use netlink_packet_netfilter::nftables::{NfTablesMessage, RuleAttribute};
use siphasher::sip::SipHasher24;

use super::super::apply::Ruleset;
use super::NetError;
use super::netfilter::Netfilter;
use table::Table;
pub(crate) use watch::Watch;

/// Sources are spread over this many buckets, each of which has one address.
pub(super) const BUCKETS: u32 = 256;

/// Replaces the whole table at once; an empty ruleset leaves no table. Blocking.
pub(crate) fn replace(ruleset: &Ruleset) -> Result<(), NetError> {
    let mut table = Table::cleared();
    if !ruleset.is_empty() {
        table.fill(ruleset);
    }
    let outcome = Netfilter::open()?.request(&mut table.into_batch());
    outcome.map_err(|source| NetError::Netfilter {
        action: "replace the table inet pulsepath".to_owned(),
        source,
    })
}

/// Whether the table has as many rules as `ruleset` asks for. Somebody may have flushed it, as
/// `nft flush ruleset` does with everybody's. Blocking.
pub(crate) fn is_in_force(ruleset: &Ruleset) -> Result<bool, NetError> {
    let mut present = 0;
    let mut count = |socket: &Netfilter| -> io::Result<()> {
        socket.dump(table::list_rules(), |entry| {
            if let NetfilterMessageInner::NfTables(NfTablesMessage::NewRule(rule)) = entry.inner {
                let ours = |it: &RuleAttribute| matches!(it, RuleAttribute::Table(name) if name == table::NAME);
                present += usize::from(rule.attributes.iter().any(ours));
            }
        })
    };
    let outcome = count(&Netfilter::open()?);
    outcome.map_err(|source| NetError::Netfilter {
        action: "list the rules".to_owned(),
        source,
    })?;
    let mut wanted = Table::cleared();
    if !ruleset.is_empty() {
        wanted.fill(ruleset);
    }
    Ok(present == wanted.rule_count())
}

/// The address of each bucket, by rendezvous hashing: when an address comes or goes, only the
/// sources that it takes or had change theirs.
pub(super) fn spread(addresses: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
    let weight = |bucket: u32, address: &IpAddr| {
        let mut hasher = SipHasher24::new();
        hasher.write_u32(bucket);
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish()
    };
    let best = |bucket| {
        addresses
            .iter()
            .max_by_key(|address| weight(bucket, address))
    };
    (0..BUCKETS).filter_map(best).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(last: &[u8]) -> BTreeSet<IpAddr> {
        last.iter()
            .map(|&last| IpAddr::from([10, 78, 0, last]))
            .collect()
    }

    #[test]
    fn every_address_gets_its_share_of_the_sources() {
        let buckets = spread(&addresses(&[1, 2, 3, 4]));
        assert_eq!(buckets.len(), BUCKETS as usize);
        for address in addresses(&[1, 2, 3, 4]) {
            let share = buckets.iter().filter(|it| **it == address).count();
            assert!((32..=96).contains(&share), "{address} has {share} of 256");
        }
    }

    #[test]
    fn an_address_that_goes_moves_only_its_own_sources() {
        let before = spread(&addresses(&[1, 2, 3]));
        let after = spread(&addresses(&[1, 3]));
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *before == IpAddr::from([10, 78, 0, 2]));
        }
    }
}
