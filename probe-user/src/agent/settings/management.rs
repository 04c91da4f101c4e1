//! Settings of the management interface.

use std::fmt;
use std::net::IpAddr;

use probe_ebpf::maps::MAX_ADDRESSES;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::at_most;
use crate::settings::Invalid;

/// Where probes arrive: an interface, addresses, or both.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManagementSettings {
    /// Name of the management interface.
    pub interface: Option<String>,
    /// The management addresses; empty: those of the interface. As text with commas between them,
    /// too: so Kubernetes gives a Pod the addresses of its node.
    #[serde(deserialize_with = "addresses")]
    pub addresses: Vec<IpAddr>,
}

impl ManagementSettings {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        if self.interface.is_none() && self.addresses.is_empty() {
            return Err(Invalid::new(
                "management.interface",
                "unset",
                "name the management interface, or its addresses in `management.addresses`",
            ));
        }
        at_most("management.addresses", self.addresses.len(), MAX_ADDRESSES)
    }
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    deserializer.deserialize_any(Addresses)
}

struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = Vec<IpAddr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses, or addresses with commas between them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let address = |part: &str| {
            let part = part.trim();
            part.parse()
                .map_err(|_| E::custom(format!("{part:?} is no IP address")))
        };
        text.split(',').map(address).collect()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = list.next_element()? {
            addresses.push(address);
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(addresses: &str) -> Result<Vec<IpAddr>, String> {
        toml::from_str(&format!("addresses = {addresses}"))
            .map(|settings: ManagementSettings| settings.addresses)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_a_list_or_text_with_commas() {
        let both: Vec<IpAddr> = vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
        assert_eq!(parse("['10.0.0.1', 'fd00::1']"), Ok(both.clone()));
        assert_eq!(parse("'10.0.0.1, fd00::1'"), Ok(both));
        assert_eq!(parse("'fd00::1'"), Ok(vec!["fd00::1".parse().unwrap()]));
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        let error = parse("'10.0.0.1,eth0'").unwrap_err();
        assert!(error.contains("\"eth0\" is no IP address"), "{error}");
        parse("['eth0']").unwrap_err();
    }
}
