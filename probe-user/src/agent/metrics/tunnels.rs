//! Metrics of tunnels.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tracing::warn;

use super::{Labels, Metrics};
use crate::agent::in_words;
use crate::agent::status::Status;
use crate::kernel::{Peer, Traffic};

/// What tells series apart: the peer, the encapsulation with its network, the direction.
type Key = (String, &'static str, String, &'static str);

impl Metrics<'_> {
    pub(super) fn tunnels(&mut self, status: &Status) -> fmt::Result {
        let counted = status.tunnels.counted.iter().map(|device| match device {
            Ok(counted) => (vec![("device", counted.device.as_str())], 1.0),
            Err(not_counted) => (vec![("device", not_counted.device.as_str())], 0.0),
        });
        let help =
            "Whether tunnels are counted on a device where they shall be; the log says why not";
        self.gauges("tunnels_counted", help, counted)?;
        match status.tunnels.recent() {
            Ok(peers) => {
                let label = |peer: &Peer| status.tunnels.names.label(peer.address);
                self.traffic(&series(&peers, label))
            }
            Err(error) => {
                warn!(error = in_words(&error), "cannot read the tunnel counters");
                Ok(())
            }
        }
    }

    fn traffic(&mut self, series: &BTreeMap<Key, Traffic>) -> fmt::Result {
        let packets = series.iter().map(|(key, it)| (labels(key), it.packets));
        let help = "Packets of tunnels, as they are on the wire";
        self.counters("tunnel_packets", help, packets)?;
        let bytes = series.iter().map(|(key, it)| (labels(key), it.bytes));
        let help = "Their bytes from the Ethernet header on";
        self.counters("tunnel_bytes", help, bytes)?;
        let ages = series
            .iter()
            .filter_map(|(key, it)| Some((labels(key), it.age?.as_secs_f64())));
        let help = "Time since the last packet";
        self.gauges("tunnel_last_seen_seconds", help, ages)
    }
}

/// The tunnels of one peer are one series, however many addresses it has.
fn series(peers: &[Peer], label: impl Fn(&Peer) -> String) -> BTreeMap<Key, Traffic> {
    let mut series: BTreeMap<Key, Traffic> = BTreeMap::new();
    for peer in peers {
        let (name, encapsulation) = (label(peer), peer.encapsulation.label());
        let vni = peer.vni.map(|vni| vni.to_string()).unwrap_or_default();
        for (direction, traffic) in [("received", peer.received), ("sent", peer.sent)] {
            let key = (name.clone(), encapsulation, vni.clone(), direction);
            let sum = series.entry(key).or_default();
            sum.packets += traffic.packets;
            sum.bytes += traffic.bytes;
            let ages = sum.age.into_iter().chain(traffic.age);
            sum.age = ages.min_by_key(|age: &Duration| *age);
        }
    }
    series
}

fn labels(key: &Key) -> Labels<'_> {
    let (peer, encapsulation, vni, direction) = key;
    let mut labels = vec![("peer", peer.as_str()), ("encap", encapsulation)];
    if !vni.is_empty() {
        labels.push(("vni", vni));
    }
    labels.push(("direction", direction));
    labels
}
