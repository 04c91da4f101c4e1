//! Which nodes and gateways the cluster has: watched, and turned into what a controller works on.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use probe_user::keys::{ClusterKeys, NodeKeys};
use probe_user::logging::in_words;

use super::gateways::{Refusal, accept};
use super::mirror::Mirror;
use super::nodes::{NodeFacts, settle_claims};
use super::resources::{EgressGateway, EgressGatewayStatus};
use crate::daemon::{Configuration, Configured, Settings, groups};
use crate::failover::{Gateway, share_sources};
use crate::monitor::NodeSpec;
use crate::tunnels::TunnelEnd;

/// Changes gather for so long.
const GATHER: Duration = Duration::from_millis(50);

/// A gateway's object, as far as it matters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayObject {
    /// Without its status.
    pub(super) object: EgressGateway,
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    /// Whether its status says that it is in force as it is written.
    pub(super) accepted: bool,
}

/// The cluster's nodes and gateways, for those who write about them.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    pub(super) gateways: BTreeMap<String, GatewayObject>,
    /// Gateways as they are in force.
    pub(super) accepted: BTreeMap<String, Gateway>,
    /// Gateways that are not in force as they are written.
    pub(super) refused: BTreeMap<String, Refusal>,
}

type Watch<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// Watches the cluster.
pub(super) struct World {
    node_watch: Watch<Node>,
    gateway_watch: Watch<EgressGateway>,
    nodes: Mirror<NodeFacts>,
    gateways: Mirror<GatewayObject>,
    annotation: Option<String>,
    /// Gateways that are in force.
    accepted: Vec<Gateway>,
    /// Nodes' keys, which take time to derive, and those that they are derived from.
    keys: HashMap<String, NodeKeys>,
    cluster_keys: Option<ClusterKeys>,
}

impl World {
    pub(super) fn new(client: &Client, settings: &Settings) -> Self {
        let nodes = watcher(Api::all(client.clone()), watcher::Config::default());
        let gateways = watcher(Api::all(client.clone()), watcher::Config::default());
        Self {
            node_watch: nodes.default_backoff().boxed(),
            gateway_watch: gateways.default_backoff().boxed(),
            nodes: Mirror::default(),
            gateways: Mirror::default(),
            annotation: settings.kubernetes.address_annotation.clone(),
            accepted: Vec::new(),
            keys: HashMap::new(),
            cluster_keys: None,
        }
    }

    /// Waits until something that matters has changed, and a little more for what comes with it. The
    /// first time, until everything is known.
    pub(super) async fn changed(&mut self) {
        while !(self.step().await && self.nodes.is_complete() && self.gateways.is_complete()) {}
        let gathered = tokio::time::sleep(GATHER);
        let mut gathered = std::pin::pin!(gathered);
        loop {
            tokio::select! {
                () = &mut gathered => return,
                _ = self.step() => {}
            }
        }
    }

    /// Takes in the next event; whether that is a change that matters.
    async fn step(&mut self) -> bool {
        let annotation = self.annotation.as_deref();
        tokio::select! {
            Some(event) = self.node_watch.next() => match event {
                Ok(event) => self.nodes.handle(event, |node| NodeFacts::read(&node, annotation)),
                Err(error) => complain("nodes", &error),
            },
            Some(event) = self.gateway_watch.next() => match event {
                Ok(event) => self.gateways.handle(event, GatewayObject::from),
                Err(error) => complain("egressgateways", &error),
            },
        }
    }

    /// What a controller works on, as things are, and what there is to say of it.
    pub(super) fn configuration(
        &mut self,
        settings: &Settings,
        keys: &ClusterKeys,
    ) -> (Configuration, Arc<Facts>) {
        let mut nodes = self.nodes.objects().clone();
        settle_claims(&mut nodes);
        let addresses: Vec<(IpAddr, &str)> = nodes
            .iter()
            .flat_map(|(name, node)| {
                let all = node.addresses.iter().chain(&node.internal);
                all.map(|address| (*address, name.as_str()))
            })
            .collect();
        let objects = self.gateways.objects();
        let accepted = accept(objects, &self.accepted, &addresses);
        self.accepted.clone_from(&accepted.gateways);
        let mut gateways = accepted.gateways;
        share_sources(&mut gateways);
        let in_force = gateways.iter().cloned();
        let in_force = in_force.map(|gateway| (gateway.name.clone(), gateway));
        let in_force = in_force.collect();
        let configuration = Configuration {
            configured: Configured {
                specs: self.specs(&nodes, keys),
                gateways,
                keys: keys.clone(),
            },
            groups: groups(&settings.services),
            tunnel_ends: nodes.iter().map(tunnel_end).collect(),
        };
        let facts = Facts {
            gateways: self.gateways.objects().clone(),
            accepted: in_force,
            nodes,
            refused: accepted.refused,
        };
        (configuration, Arc::new(facts))
    }

    fn specs(&mut self, nodes: &BTreeMap<String, NodeFacts>, keys: &ClusterKeys) -> Vec<NodeSpec> {
        if self.cluster_keys.as_ref() != Some(keys) {
            self.keys.clear();
            self.cluster_keys = Some(keys.clone());
        }
        self.keys.retain(|name, _| nodes.contains_key(name));
        let spec = |(name, node): (&String, &NodeFacts)| {
            let derived = self.keys.entry(name.clone());
            NodeSpec {
                name: name.clone(),
                addresses: node.addresses.clone(),
                labels: node.labels.clone(),
                keys: derived.or_insert_with(|| keys.node_keys(name)).clone(),
                problem: node.problem.clone(),
            }
        };
        nodes.iter().map(spec).collect()
    }
}

impl From<EgressGateway> for GatewayObject {
    fn from(mut object: EgressGateway) -> Self {
        let generation = object.metadata.generation;
        let is_accepted = |status: EgressGatewayStatus| {
            let mut conditions = status.conditions.iter();
            status.observed_generation == generation
                && conditions.any(|it| it.type_ == "Accepted" && it.status == "True")
        };
        let accepted = object.status.take().is_some_and(is_accepted);
        object.metadata.managed_fields = None;
        object.metadata.resource_version = None;
        Self {
            uid: object.uid().unwrap_or_default(),
            generation,
            accepted,
            object,
        }
    }
}

/// Tunnels end at a node's InternalIPs, wherever it is probed.
fn tunnel_end((name, node): (&String, &NodeFacts)) -> TunnelEnd {
    TunnelEnd {
        node: name.clone(),
        addresses: node.addresses.clone(),
        tunnel_addresses: match node.internal.is_empty() {
            true => node.addresses.clone(),
            false => node.internal.clone(),
        },
    }
}

fn complain(what: &'static str, error: &watcher::Error) -> bool {
    tracing::warn!(
        error = in_words(error),
        "{what} are not watched: what is known of them stays in force"
    );
    false
}
