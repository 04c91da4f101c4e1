//! What the core is told of the node's network, and how it chooses an interface.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::types::{EgressIp, Gateway};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) loopback: bool,
    /// Set up, and with a carrier.
    pub(crate) up: bool,
    /// Its Ethernet address; `None`: neighbours are not resolved there.
    pub(crate) mac: Option<[u8; 6]>,
}

/// An address on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) link: u32,
    pub(crate) address: IpAddr,
    pub(crate) prefix_length: u8,
    /// Whether an agent put it there.
    pub(crate) ours: bool,
}

/// The node's interfaces and addresses at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) links: Vec<Link>,
    pub(crate) addresses: Vec<Present>,
    /// Whether the kernel says of an address who has put it there.
    pub(crate) tells_origin: bool,
}

impl Observed {
    pub(crate) fn link(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// Where `egress_ip` belongs, or why that is not known. `interface` is the configured default.
    pub(super) fn place_for(
        &self,
        egress_ip: &EgressIp,
        interface: Option<&str>,
    ) -> Result<&Link, String> {
        let named = egress_ip.interface.as_deref().or(interface);
        self.place(egress_ip.address, named, egress_ip.routed)
    }

    fn place(&self, address: IpAddr, named: Option<&str>, routed: bool) -> Result<&Link, String> {
        if routed {
            let loopback = self.links.iter().find(|link| link.loopback);
            return loopback.ok_or_else(|| "there is no loopback interface".to_owned());
        }
        if let Some(name) = named {
            let named = self.links.iter().find(|link| link.name == name);
            return named.ok_or_else(|| format!("interface {name} is missing"));
        }
        let link = self
            .link_of_subnet(address)
            .or_else(|| self.holder(address));
        link.ok_or_else(|| format!("no interface has an address in a subnet that holds {address}"))
    }

    /// The interfaces where egress IPs of a gateway belong, each with whether those are IPv4; none
    /// where they are routed. `interface` is the configured default.
    pub(super) fn exits(
        &self,
        gateway: &Gateway,
        interface: Option<&str>,
    ) -> BTreeSet<(bool, &str)> {
        let named = gateway.interface.as_deref().or(interface);
        // A prefix of addresses that hosts may have does not reach into another subnet.
        let ends = |prefix: &IpNet| [prefix.network(), prefix.broadcast()];
        let exit = |address: IpAddr| {
            let link = self.place(address, named, gateway.routed).ok()?;
            (!link.loopback).then_some((address.is_ipv4(), link.name.as_str()))
        };
        let addresses = gateway.egress_ips.iter().flat_map(ends);
        addresses.filter_map(exit).collect()
    }

    /// The interface that has `address` from us already.
    fn holder(&self, address: IpAddr) -> Option<&Link> {
        let ours = |present: &&Present| present.ours && present.address == address;
        let held = self.addresses.iter().find(ours)?;
        self.link(held.link)
    }

    /// The interface whose subnet holds `address`; of several the one of the longest prefix.
    fn link_of_subnet(&self, address: IpAddr) -> Option<&Link> {
        let holds = |present: &&Present| {
            let subnet = IpNet::new(present.address, present.prefix_length);
            !present.ours && subnet.is_ok_and(|subnet| subnet.contains(&address))
        };
        let with_link = |present: &Present| {
            let link = self.link(present.link)?;
            (!link.loopback && present.address != address).then_some((present.prefix_length, link))
        };
        let candidates = self.addresses.iter().filter(holds).filter_map(with_link);
        candidates
            .max_by_key(|(length, link)| (*length, link.up))
            .map(|(_, link)| link)
    }
}
