//! Settings of the tunnel counters.

use std::collections::HashSet;

use probe_ebpf::maps::{
    DEFAULT_TUNNEL_PEERS, DEFAULT_TUNNEL_PORTS, Encapsulation, MAX_TUNNEL_PORTS, Switch,
    TunnelConfig,
};
use serde::Deserialize;

use super::at_most;
use crate::kernel::{LoadOptions, TcSetting};
use crate::settings::Invalid;

/// More would be a list of the Internet.
const MOST_PEERS: u32 = 1 << 20;
/// Fewer would be forgotten before anybody has read of them.
const FEWEST_PEERS: u32 = 64;

/// The tunnel counters.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TunnelSettings {
    /// Whether tunnels are counted. Counting is in the path of every packet of the interfaces, and
    /// its map takes about 1 MB for each CPU: it has to be asked for.
    pub enabled: bool,
    /// Names of the interfaces where tunnel packets arrive and leave; empty: the management
    /// interface.
    pub interfaces: Vec<String>,
    /// UDP ports of VXLAN.
    pub vxlan_ports: Vec<u16>,
    /// UDP ports of Geneve.
    pub geneve_ports: Vec<u16>,
    /// UDP ports of WireGuard.
    pub wireguard_ports: Vec<u16>,
    /// Whether the networks (VNIs) of VXLAN and Geneve are told apart.
    pub per_vni: bool,
    /// Tunnels that are remembered at most; of more, those unseen for longest are forgotten.
    pub max_peers: u32,
    /// How the counters are attached where the reflector's native XDP program does not count.
    pub hook: TcSetting,
}

impl Default for TunnelSettings {
    fn default() -> Self {
        let ports = |wanted| {
            let of_it = DEFAULT_TUNNEL_PORTS.iter().filter(|(_, it)| *it == wanted);
            of_it.map(|(port, _)| *port).collect()
        };
        Self {
            enabled: false,
            interfaces: Vec::new(),
            vxlan_ports: ports(Encapsulation::Vxlan),
            geneve_ports: ports(Encapsulation::Geneve),
            wireguard_ports: ports(Encapsulation::WireGuard),
            per_vni: false,
            max_peers: DEFAULT_TUNNEL_PEERS as u32,
            hook: TcSetting::default(),
        }
    }
}

impl TunnelSettings {
    /// What the kernel programs are told.
    pub(in crate::agent) fn config(&self) -> TunnelConfig {
        TunnelConfig {
            per_vni: Switch::from(self.per_vni),
            ..TunnelConfig::new(
                self.ports()
                    .map(|(_, port, encapsulation)| (port, encapsulation)),
            )
        }
    }

    /// Of how many tunnels there shall be counters, if there shall be any.
    pub(in crate::agent) fn peers(&self) -> Option<u32> {
        self.enabled.then_some(self.max_peers)
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let range = FEWEST_PEERS..=MOST_PEERS;
        Invalid::unless_within("tunnels.max_peers", &self.max_peers, range)?;
        at_most("tunnels.*_ports", self.ports().count(), MAX_TUNNEL_PORTS)?;
        let mut seen = HashSet::new();
        for (key, port, _) in self.ports() {
            let key = format!("tunnels.{key}");
            Invalid::unless_within(&key, &port, 1..=u16::MAX)?;
            if !seen.insert(port) {
                return Err(Invalid::new(key, port, "must be listed once"));
            }
        }
        Ok(())
    }

    fn ports(&self) -> impl Iterator<Item = (&'static str, u16, Encapsulation)> {
        let lists = [
            ("vxlan_ports", &self.vxlan_ports, Encapsulation::Vxlan),
            ("geneve_ports", &self.geneve_ports, Encapsulation::Geneve),
            (
                "wireguard_ports",
                &self.wireguard_ports,
                Encapsulation::WireGuard,
            ),
        ];
        let each = |(key, ports, encapsulation): (_, &Vec<u16>, _)| {
            let ports = ports.clone();
            ports
                .into_iter()
                .map(move |port| (key, port, encapsulation))
        };
        lists.into_iter().flat_map(each)
    }
}

impl super::Settings {
    /// What is settled when the kernel programs are loaded.
    pub(in crate::agent) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            log: self.log.kernel,
            tunnel_peers: self.tunnels.peers(),
        }
    }
}
