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

/// The keys, by slot. One that is `present` stays in its slot: the kernel could otherwise read half of
/// it while it is written to another one, and drop a probe.
pub(super) fn probe_keys(keys: &NodeKeys, present: [ProbeKey; KEY_SLOTS]) -> [ProbeKey; KEY_SLOTS] {
    let wanted = keys.all().iter();
    let mut new: Vec<ProbeKey> = wanted
        .map(|key| ProbeKey::new(key.id, key.bytes()))
        .collect();
    let mut slots = present.map(|key| {
        let stays = new.iter().position(|wanted| *wanted == key);
        stays.map_or(ProbeKey::EMPTY, |index| new.remove(index))
    });
    let free = slots.iter_mut().filter(|slot| slot.id().is_none());
    for (slot, key) in free.zip(new) {
        *slot = key;
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
    use crate::keys::NodeKey;

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

    fn slots(keys: &[u16], present: [ProbeKey; KEY_SLOTS]) -> [ProbeKey; KEY_SLOTS] {
        let key = |&id: &u16| NodeKey::new(id, [id as u8; 16]);
        let keys = NodeKeys::new("n1", keys.iter().map(key).collect()).unwrap();
        probe_keys(&keys, present)
    }

    #[test]
    fn a_key_that_stays_stays_in_its_slot() {
        let ids = |slots: [ProbeKey; KEY_SLOTS]| slots.map(|slot| slot.id());
        let first = slots(&[1], [ProbeKey::EMPTY; KEY_SLOTS]);
        assert_eq!(ids(first), [Some(1), None]);
        let both = slots(&[1, 2], first);
        assert_eq!(ids(both), [Some(1), Some(2)]);
        let second = slots(&[2], both);
        assert_eq!(ids(second), [None, Some(2)]);
        assert_eq!(ids(slots(&[2, 3], second)), [Some(3), Some(2)]);
        assert_eq!(ids(slots(&[4, 5], second)), [Some(4), Some(5)]);
    }

    #[test]
    fn another_key_with_the_same_id_takes_its_place() {
        let slots = slots(&[1], [ProbeKey::new(1, [0xff; 16]), ProbeKey::EMPTY]);
        assert!(slots[0] == ProbeKey::new(1, [1; 16]) && slots[1] == ProbeKey::EMPTY);
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
