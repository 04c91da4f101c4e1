//! What the kernel guards: which addresses, on which devices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4AddrRange, Ipv6AddrRange};
use probe_ebpf::maps::Guard;

use super::super::types::Gateway;
use super::Observed;

/// Every address that the node may use only under its lease, or not at all. Nothing is guarded while
/// this is empty.
pub(crate) type Guards = BTreeMap<IpAddr, Guard>;

/// The fence as it has to be: the node's own addresses pass under the lease; those of its gateways
/// that belong elsewhere, and those on their way off the node, do not.
pub(super) fn guards<'a>(
    own: impl Iterator<Item = IpAddr>,
    leaving: impl Iterator<Item = IpAddr>,
    gateways: impl Iterator<Item = &'a Gateway>,
) -> Guards {
    let pools = gateways.flat_map(|gateway| &gateway.egress_ips);
    let shut = pools.flat_map(addresses).chain(leaving);
    let mut guards: Guards = shut.map(|address| (address, Guard::Shut)).collect();
    guards.extend(own.map(|address| (address, Guard::Own)));
    guards
}

fn addresses(prefix: &IpNet) -> Box<dyn Iterator<Item = IpAddr>> {
    match prefix {
        IpNet::V4(prefix) => {
            let range = Ipv4AddrRange::new(prefix.network(), prefix.broadcast());
            Box::new(range.map(IpAddr::V4))
        }
        IpNet::V6(prefix) => {
            let range = Ipv6AddrRange::new(prefix.network(), prefix.broadcast());
            Box::new(range.map(IpAddr::V6))
        }
    }
}

/// The devices on which a gateway's address can leave: where it belongs, and any other that has an
/// address of the node, by which packets go whose route says so.
pub(super) fn devices<'a>(
    observed: &Observed,
    gateways: impl Iterator<Item = &'a Gateway>,
    interface: Option<&str>,
) -> BTreeSet<u32> {
    let exits: BTreeSet<&str> = gateways
        .flat_map(|gateway| observed.exits(gateway, interface))
        .map(|(_, name)| name)
        .collect();
    let addressed: BTreeSet<u32> = observed.addresses.iter().map(|it| it.link).collect();
    let links = observed.links.iter().filter(|link| !link.loopback);
    let can_leave = links.filter(|link| {
        exits.contains(&*link.name) || (link.mac.is_some() && addressed.contains(&link.index))
    });
    can_leave.map(|link| link.index).collect()
}
