//! Which interface carries the node's management addresses, and which addresses those are.

use std::fmt;
use std::net::IpAddr;

use super::Interface;

/// How the configuration describes the management interface: by name, by addresses, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Management {
    /// The interface's name.
    pub interface: Option<String>,
    /// The management addresses. Empty: those of the interface.
    pub addresses: Vec<IpAddr>,
}

/// No interface fits the description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NotFound(Management);

impl fmt::Display for NotFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.interface {
            Some(name) => write!(formatter, "interface {name} is missing"),
            None => {
                let addresses: Vec<_> = self.0.addresses.iter().map(IpAddr::to_string).collect();
                write!(
                    formatter,
                    "no interface has an address {}",
                    addresses.join(" or ")
                )
            }
        }
    }
}

impl Management {
    /// The management interface among `interfaces`. `previous` is the index of the one that it was
    /// so far: it stays that one when it is renamed, unless another one bears the name now.
    pub fn choose<'a>(
        &self,
        interfaces: &'a [Interface],
        previous: Option<u32>,
    ) -> Result<&'a Interface, NotFound> {
        let found = match &self.interface {
            Some(name) => interfaces
                .iter()
                .find(|interface| interface.name == *name)
                .or_else(|| {
                    interfaces
                        .iter()
                        .find(|interface| Some(interface.index) == previous)
                }),
            None => interfaces.iter().find(|interface| {
                self.addresses
                    .iter()
                    .any(|address| interface.addresses.contains(address))
            }),
        };
        found.ok_or_else(|| NotFound(self.clone()))
    }

    /// The management addresses, given the management interface.
    pub fn addresses_on(&self, interface: &Interface) -> Vec<IpAddr> {
        if !self.addresses.is_empty() {
            return self.addresses.clone();
        }
        let mut addresses: Vec<_> = interface
            .addresses
            .iter()
            .copied()
            .filter(is_routable)
            .collect();
        addresses.sort();
        addresses
    }
}

/// Whether a prober elsewhere can use the address without saying on which link.
fn is_routable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
        Interface {
            index,
            name: name.to_owned(),
            addresses: addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
            ..Interface::default()
        }
    }

    fn by_name(name: &str) -> Management {
        Management {
            interface: Some(name.to_owned()),
            addresses: Vec::new(),
        }
    }

    fn by_address(address: &str) -> Management {
        Management {
            interface: None,
            addresses: vec![address.parse().unwrap()],
        }
    }

    #[test]
    fn it_is_found_by_name_or_by_address() {
        let interfaces = [
            interface(2, "eth0", &["10.0.0.1"]),
            interface(3, "eth1", &["10.0.0.2"]),
        ];
        assert_eq!(by_name("eth1").choose(&interfaces, None).unwrap().index, 3);
        assert_eq!(
            by_address("10.0.0.1")
                .choose(&interfaces, None)
                .unwrap()
                .index,
            2
        );
    }

    #[test]
    fn a_renamed_interface_stays_the_one() {
        let interfaces = [interface(2, "mgmt", &[]), interface(3, "eth1", &[])];
        assert_eq!(
            by_name("eth0").choose(&interfaces, Some(2)).unwrap().name,
            "mgmt"
        );
    }

    #[test]
    fn an_interface_that_bears_the_name_now_goes_before_the_renamed_one() {
        let interfaces = [interface(2, "old", &[]), interface(7, "eth0", &[])];
        assert_eq!(
            by_name("eth0").choose(&interfaces, Some(2)).unwrap().index,
            7
        );
    }

    #[test]
    fn a_missing_one_is_named() {
        let missing = by_name("eth0").choose(&[], Some(2)).unwrap_err();
        assert_eq!(missing.to_string(), "interface eth0 is missing");
        let missing = by_address("10.0.0.9").choose(&[], None).unwrap_err();
        assert_eq!(missing.to_string(), "no interface has an address 10.0.0.9");
    }

    #[test]
    fn link_local_addresses_are_no_management_addresses() {
        let interface = interface(
            2,
            "eth0",
            &["fe80::1", "fd00::1", "169.254.0.1", "10.0.0.1"],
        );
        let addresses: Vec<IpAddr> = ["10.0.0.1", "fd00::1"].map(|a| a.parse().unwrap()).into();
        assert_eq!(by_name("eth0").addresses_on(&interface), addresses);
    }

    #[test]
    fn configured_addresses_are_the_only_ones() {
        let interface = interface(2, "eth0", &["10.0.0.1", "10.0.0.2"]);
        let management = Management {
            interface: Some("eth0".to_owned()),
            ..by_address("10.0.0.2")
        };
        assert_eq!(management.addresses_on(&interface), management.addresses);
    }
}
