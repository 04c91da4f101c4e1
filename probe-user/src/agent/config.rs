//! From settings and keys to what the maps hold.

use std::net::IpAddr;

use probe_ebpf::maps::{KEY_SLOTS, MAX_ADDRESSES, Prefix, ProbeConfig, ProbeKey, Switch};
use probe_ebpf::wire::NodeId;

use super::settings::Settings;
use crate::keys::NodeKeys;

/// The reflector's configuration for these management addresses. What does not fit is left out.
pub(super) fn probe_config(settings: &Settings, addresses: &[IpAddr]) -> ProbeConfig {
    let mut config = ProbeConfig::new(NodeId::of(&settings.node).0);
    config.probe_port = settings.reflector.port;
    config.sbfd_port = settings.sbfd.port;
    config.sbfd_discriminator = settings.sbfd.discriminator;
    config.sbfd_min_rx_us = u32::try_from(settings.sbfd.min_rx.0.as_micros()).unwrap_or(u32::MAX);
    config.plain_stamp = Switch::from(settings.stamp.enabled);
    config.sbfd = Switch::from(settings.sbfd.enabled);
    // Both lists are the same where both protocols are on: the settings have been validated.
    let sources = match (settings.stamp.enabled, settings.sbfd.enabled) {
        (true, _) => settings.stamp.sources.as_slice(),
        (false, true) => settings.sbfd.sources.as_slice(),
        (false, false) => &[],
    };
    for (slot, source) in config.sources.iter_mut().zip(sources) {
        *slot = source.to_map();
        config.source_count += 1;
    }
    for (slot, address) in config
        .addresses
        .iter_mut()
        .zip(addresses)
        .take(MAX_ADDRESSES)
    {
        *slot = host_prefix(*address);
        config.address_count += 1;
    }
    config
}

/// The keys, by slot: current, next.
pub(super) fn probe_keys(keys: &NodeKeys) -> [ProbeKey; KEY_SLOTS] {
    let mut slots = [ProbeKey::EMPTY; KEY_SLOTS];
    for (slot, key) in slots.iter_mut().zip(keys.all()) {
        *slot = ProbeKey::new(key.id, key.bytes());
    }
    slots
}

fn host_prefix(address: IpAddr) -> Prefix {
    Prefix::new(mapped(address), 128)
}

/// The address's 16 bytes, IPv4 in its mapped form.
pub(super) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The address of 16 bytes, IPv4 out of its mapped form.
pub(super) fn unmapped(bytes: [u8; 16]) -> IpAddr {
    IpAddr::from(bytes).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(&format!("node = 'n1'\n{text}")).unwrap()
    }

    #[test]
    fn addresses_of_both_families_are_configured_up_to_the_maps_size() {
        let addresses: Vec<IpAddr> = (1..=9).map(|host| IpAddr::from([10, 0, 0, host])).collect();
        let config = probe_config(&settings(""), &addresses);
        assert_eq!(config.address_count, 8);
        assert_eq!(unmapped(config.addresses[7].address()), addresses[7]);
        let config = probe_config(&settings(""), &["fd00::1".parse().unwrap()]);
        assert_eq!(
            unmapped(config.addresses[0].address()).to_string(),
            "fd00::1"
        );
    }

    #[test]
    fn sources_are_those_of_the_protocol_that_is_on() {
        let on = settings(
            "stamp.sources = ['10.0.0.0/8']\nsbfd.sources = ['10.1.0.0/16']\nsbfd.enabled = true",
        );
        let config = probe_config(&on, &[]);
        assert_eq!(
            (config.source_count, config.sources[0].length()),
            (1, 96 + 16)
        );
        let off = settings("stamp.sources = ['10.0.0.0/8']");
        assert_eq!(probe_config(&off, &[]).source_count, 0);
    }
}
