//! What the node's packet filter shall do with the egress IPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::types::EgressIp;
use super::held_back::{Fate, Range, held_back};

/// The rules, as the packet filter's adapter puts them into force: all at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ruleset {
    /// Addresses whose local input is dropped, save ICMP: the node's own stack knows nothing of the
    /// connections that leave from them, and would reset those that it takes over.
    pub(crate) guarded: BTreeSet<IpAddr>,
    /// Who leaves from where. The first that fits decides, so longer prefixes come first.
    pub(crate) steering: Vec<Steering>,
    /// Whose traffic does not leave at all, by the name of the interface.
    pub(crate) held_back: BTreeMap<String, Vec<Range>>,
    /// Whose traffic does not leave from its own address, by the name of the interface.
    pub(crate) sources: BTreeMap<String, Vec<Range>>,
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
        self.guarded.is_empty() && self.steering.is_empty() && self.sources.is_empty()
    }

    /// The rules for `held`: egress IPs, each with the interface by which its traffic leaves.
    /// `guarded` are others whose local input is dropped all the same.
    pub(super) fn new<'a>(
        held: impl IntoIterator<Item = (&'a EgressIp, Option<&'a str>)>,
        guarded: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let mut ruleset = Self {
            guarded: guarded.into_iter().collect(),
            ..Self::default()
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

    /// Traffic of sources does not leave by interfaces for their family, unless it is steered; and
    /// not from its own address, whatever was decided about it before these rules came.
    pub(super) fn hold_back<'a>(
        &mut self,
        sources: impl IntoIterator<Item = (&'a [IpNet], BTreeSet<(bool, &'a str)>)>,
    ) {
        let mut exits: BTreeMap<&str, BTreeMap<IpNet, Fate>> = BTreeMap::new();
        for (sources, outs) in sources {
            for (ipv4, out) in outs {
                let same_family = sources.iter().filter(|it| it.addr().is_ipv4() == ipv4);
                let fates = same_family.map(|it| (it.trunc(), Fate::HeldBack));
                exits.entry(out).or_default().extend(fates);
            }
        }
        for (out, mut fates) in exits {
            let sources = held_back(&fates);
            if !sources.is_empty() {
                self.sources.insert(out.to_owned(), sources);
            }
            let here = |it: &&Steering| it.out.as_deref().is_none_or(|it| it == out);
            let steered = self.steering.iter().filter(here);
            fates.extend(steered.map(|it| (it.source, Fate::Steered)));
            let ranges = held_back(&fates);
            if !ranges.is_empty() {
                self.held_back.insert(out.to_owned(), ranges);
            }
        }
    }
}
