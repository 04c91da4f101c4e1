//! What the node's packet filter shall do with the egress IPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::types::EgressIp;

/// The rules, as the packet filter's adapter puts them into force: all at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ruleset {
    /// Addresses whose local input is dropped, save ICMP: the node's own stack knows nothing of the
    /// connections that leave from them, and would reset those that it takes over.
    pub(crate) guarded: BTreeSet<IpAddr>,
    /// Who leaves from where. The first that fits decides, so longer prefixes come first.
    pub(crate) steering: Vec<Steering>,
}

/// Traffic of a prefix that leaves from one of some addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steering {
    pub(crate) source: IpNet,
    /// The interface by which it must leave; `None`: any.
    pub(crate) out: Option<String>,
    /// Where it leaves from: which of several is chosen by the source's address. Never empty.
    pub(crate) addresses: BTreeSet<IpAddr>,
}

impl Ruleset {
    pub(crate) fn is_empty(&self) -> bool {
        self.guarded.is_empty() && self.steering.is_empty()
    }

    /// The rules for `held`: egress IPs, each with the interface by which its traffic leaves.
    /// `guarded` are others whose local input is dropped all the same.
    pub(super) fn new<'a>(
        held: impl IntoIterator<Item = (&'a EgressIp, Option<&'a str>)>,
        guarded: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let mut ruleset = Self {
            guarded: guarded.into_iter().collect(),
            steering: Vec::new(),
        };
        let mut groups: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        for (egress_ip, out) in held {
            ruleset.guarded.insert(egress_ip.address);
            let same_family =
                |source: &&IpNet| source.addr().is_ipv4() == egress_ip.address.is_ipv4();
            for source in egress_ip.sources.iter().filter(same_family) {
                let longest_first = u8::MAX - source.prefix_len();
                let group = groups
                    .entry((longest_first, source.trunc(), out))
                    .or_default();
                group.insert(egress_ip.address);
            }
        }
        let steering = groups
            .into_iter()
            .map(|((_, source, out), addresses)| Steering {
                source,
                out: out.map(str::to_owned),
                addresses,
            });
        ruleset.steering = steering.collect();
        ruleset
    }
}
