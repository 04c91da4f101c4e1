//! Tells witnesses what their duty is, and hears what they promise.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use probe_user::channel::{self, Security, Watched, WitnessReport};
use probe_user::keys::{ClusterKeys, NodeKey, NodeKeys};

use super::messenger::Messenger;
use crate::channel::Answer;
use crate::failover::Duty;
use crate::monitor::{NodeSpec, Sighting};

/// How nodes are probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes {
    /// Time between two probes of a node.
    pub(crate) period: Duration,
    /// UDP port of the nodes' reflectors.
    pub(crate) port: u16,
}

/// The agents that are or were witnesses.
pub(crate) struct Witnessing {
    messenger: Messenger<channel::Duty>,
    probes: Probes,
    /// The cluster's nodes, even those that are not configured any more.
    nodes: HashMap<String, Node>,
    /// By which everyone's probe keys are made; `None`: nothing is configured yet.
    keys: Option<ClusterKeys>,
    duties: BTreeMap<Arc<str>, Duty>,
}

/// How a node is or was probed.
#[derive(Default)]
struct Node {
    addresses: Vec<IpAddr>,
    /// `None`: as its name and the cluster's keys say.
    keys: Option<NodeKeys>,
}

impl Witnessing {
    /// There is no witness yet. Agents listen on `port`; without `security` none is told anything.
    pub(crate) fn new(security: Option<Security>, port: u16, probes: Probes) -> Self {
        Self {
            messenger: Messenger::new(security, port),
            probes,
            nodes: HashMap::new(),
            keys: None,
            duties: BTreeMap::new(),
        }
    }

    /// Nodes that an earlier controller told something, by where they were reached then.
    pub(crate) fn remember(&mut self, reach: &BTreeMap<String, Vec<IpAddr>>) {
        let node = |(name, addresses): (&String, &Vec<IpAddr>)| {
            let addresses = addresses.clone();
            let keys = None;
            (name.clone(), Node { addresses, keys })
        };
        self.nodes.extend(reach.iter().map(node));
    }

    /// These nodes are configured from now on. Others may have to be witnessed all the same.
    pub(crate) fn follow(&mut self, specs: &[NodeSpec], keys: ClusterKeys) {
        for node in self.nodes.values_mut() {
            node.keys = None;
        }
        let node = |spec: &NodeSpec| {
            let (addresses, keys) = (spec.addresses.clone(), Some(spec.keys.clone()));
            (spec.name.clone(), Node { addresses, keys })
        };
        self.nodes.extend(specs.iter().map(node));
        self.keys = Some(keys);
        let witnesses: Vec<Arc<str>> = self.duties.keys().cloned().collect();
        for witness in witnesses {
            self.push(&witness);
        }
    }

    /// A node has confirmed these keys: witnesses, too, sign with the newest of them.
    pub(crate) fn note_keys(&mut self, node: &str, held: &[NodeKey]) {
        let Some(keys) = self.nodes.get_mut(node).and_then(|node| node.keys.as_mut()) else {
            return;
        };
        let signing = keys.signing_as_held(held);
        if std::mem::replace(keys, signing.clone()) == signing {
            return;
        }
        let watches = |duty: &Duty| duty.watched.iter().any(|(name, _)| **name == *node);
        let duties = self.duties.iter().filter(|(_, duty)| watches(duty));
        let witnesses: Vec<Arc<str>> = duties.map(|(witness, _)| witness.clone()).collect();
        for witness in witnesses {
            self.push(&witness);
        }
    }

    /// Takes note of how a node is doing.
    pub(crate) fn observe(&self, sighting: &Sighting) {
        self.messenger.set_state(&sighting.node, sighting.state);
    }

    /// This is the node's duty from now on; `None`: it has none, and need not be told.
    pub(crate) fn tell(&mut self, node: Arc<str>, duty: Option<Duty>) {
        match duty {
            Some(duty) => {
                self.duties.insert(node.clone(), duty);
                self.push(&node);
            }
            None => {
                self.duties.remove(&node);
                self.messenger.forget(&node);
            }
        }
    }

    /// The next answer of any witness. Never returns without a channel.
    pub(crate) async fn answer(&mut self) -> Option<Answer<WitnessReport>> {
        self.messenger.answer().await
    }

    fn push(&mut self, witness: &Arc<str>) {
        let (Some(duty), Some(keys)) = (self.duties.get(witness), &self.keys) else {
            return;
        };
        let watched = |(name, floor): &(Arc<str>, u64)| {
            let node = self.nodes.get(&**name);
            let known = node.and_then(|node| node.keys.clone());
            Watched {
                keys: known.unwrap_or_else(|| keys.node_keys(name)),
                addresses: node.map_or(Vec::new(), |node| node.addresses.clone()),
                floor: *floor,
                vote: true,
            }
        };
        let duty = channel::Duty {
            version: duty.version,
            instance: duty.instance,
            watched: duty.watched.iter().map(watched).collect(),
            period: self.probes.period,
            lease: duty.lease,
            port: self.probes.port,
        };
        let node = self.nodes.get(&**witness);
        let addresses = node.map_or(&[][..], |node| &node.addresses);
        self.messenger.tell(witness, addresses, duty);
    }
}
