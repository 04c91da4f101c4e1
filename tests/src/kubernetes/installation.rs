//! Pulsepath on a [`Site`], installed from its chart by Helm.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use controller::api::State;
use controller::kubernetes::resources::{EgressGateway, NodeHealth};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, ObjectList};
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use super::{Account, PATIENCE, REGISTRY, Site, programs};
use crate::command::run;
use crate::egress::{CLIENTS, EGRESS_IP};
use crate::{LinkState, Signal, within};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/pulsepath");

/// The release's name, and that of its namespace.
pub const RELEASE: &str = "pulsepath";

/// Image tags. What they stand for is the same: a change from one to the other is an upgrade.
pub const TAGS: [&str; 2] = ["one", "two"];

/// The node annotation that gives management addresses.
pub const ADDRESS_ANNOTATION: &str = "pulsepath.dev/address";

/// The label of nodes that may own egress IPs.
const CANDIDATE: &str = "egress";
/// The label of nodes that controllers may be on.
const CONTROL: &str = "control";

/// Who owns an egress IP, and since when, as the gateway's status has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The owner's number.
    pub node: u8,
    /// When it became the owner.
    pub since: String,
}

/// A site with Pulsepath. Nodes 1 and 2 may own egress IPs, controllers are on the others.
#[derive(Debug)]
pub struct Installation {
    site: Site,
}

impl Installation {
    /// Starts a site with `nodes` nodes (4 or more), installs the chart, and waits until all nodes are
    /// AVAILABLE.
    ///
    /// # Errors
    /// Something does not come to be within [`PATIENCE`].
    pub fn start(purpose: &str, nodes: u8) -> Result<Self> {
        ensure!(
            nodes >= 4,
            "two owners and two controllers are {nodes} nodes"
        );
        let site = Site::start(purpose, nodes, &TAGS)?;
        let installation = Self { site };
        installation.label_nodes()?;
        installation.upgrade(TAGS[0], &[])?;
        installation.await_all_available()?;
        Ok(installation)
    }

    /// Gives all nodes the labels that they begin with.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn label_nodes(&self) -> Result<()> {
        let (candidates, control): (Vec<u8>, Vec<u8>) =
            self.indices().partition(|index| *index <= 2);
        for (label, nodes) in [(CANDIDATE, &candidates), (CONTROL, &control)] {
            let names = nodes.iter().map(|index| format!("n{index}"));
            let names: Vec<_> = names.collect();
            let mut arguments = vec!["label", "--overwrite", "nodes"];
            arguments.extend(names.iter().map(String::as_str));
            let label = format!("{label}=yes");
            arguments.push(&label);
            self.site.plane().kubectl(&arguments)?;
        }
        Ok(())
    }

    /// Installs the release, or upgrades it, with images of `tag`, and waits until that is done.
    ///
    /// # Errors
    /// Helm fails, or the Pods are not ready within [`PATIENCE`].
    pub fn upgrade(&self, tag: &str, values: &[&str]) -> Result<()> {
        let (registry, tag) = (
            format!("image.registry={REGISTRY}"),
            format!("image.tag={tag}"),
        );
        let annotation =
            format!("controller.settings.kubernetes.address_annotation={ADDRESS_ANNOTATION}");
        let place = format!("controller.nodeSelector.{CONTROL}=yes");
        let all = [
            registry.as_str(),
            &tag,
            &annotation,
            &place,
            "agent.maxUnavailable=100%",
            // Nodes fall here more often than anywhere.
            "controller.settings.failover.damping.count=0",
        ];
        let mut arguments = vec!["upgrade", "--install", "--create-namespace", RELEASE, CHART];
        for value in all.iter().chain(values) {
            arguments.extend(["--set", value]);
        }
        self.helm(&arguments)?;
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        for workload in [
            "daemonset/pulsepath-agent",
            "deployment/pulsepath-controller",
        ] {
            let arguments = [
                "rollout",
                "status",
                workload,
                &limit,
                "--namespace",
                RELEASE,
            ];
            self.site
                .plane()
                .kubectl(&arguments)
                .with_context(|| self.report())?;
        }
        Ok(())
    }

    /// Runs Helm in the release's namespace, and returns what it prints.
    ///
    /// # Errors
    /// What it says.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.site.plane().command(programs::helm()?);
        for kind in ["CACHE", "CONFIG", "DATA"] {
            let directory = self.site.cluster().files().join("helm").join(kind);
            command.env(format!("HELM_{kind}_HOME"), directory);
        }
        run(command.args(["--namespace", RELEASE]).args(arguments))
    }

    /// Creates or changes the gateway `gw` of the candidates, with the client's egress IP.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn apply_gateway(&self) -> Result<()> {
        self.apply_gateway_of(&[EGRESS_IP.into()])
    }

    /// As [`Self::apply_gateway`], with these egress IPs.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn apply_gateway_of(&self, addresses: &[IpAddr]) -> Result<()> {
        let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
        let manifest = serde_json::json!({
            "apiVersion": "pulsepath.dev/v1alpha1",
            "kind": "EgressGateway",
            "metadata": { "name": "gw" },
            "spec": {
                "nodeSelector": { "selector": { "matchLabels": { (CANDIDATE): "yes" } } },
                "ippools": { "ipv4": addresses },
                "sources": [CLIENTS],
            },
        });
        self.site.plane().apply(&manifest.to_string()).map(drop)
    }

    /// The gateway `gw` as it is.
    ///
    /// # Errors
    /// The API server does not answer, or there is none.
    pub fn gateway(&self) -> Result<EgressGateway> {
        self.site.plane().client().call(|client| async move {
            let gateways: Api<EgressGateway> = Api::all(client);
            gateways.get("gw").await
        })
    }

    /// Who owns the client's egress IP.
    ///
    /// # Errors
    /// Nobody does, or the API server does not answer.
    pub fn owner(&self) -> Result<Ownership> {
        self.owner_of(EGRESS_IP.into())
    }

    /// Who owns `address`.
    ///
    /// # Errors
    /// Nobody does, or the API server does not answer.
    pub fn owner_of(&self, address: IpAddr) -> Result<Ownership> {
        let status = self.gateway()?.status.context("no status yet")?;
        let address = address.to_string();
        let owned = status.node_list.iter().find_map(|node| {
            let eip = node
                .eips
                .iter()
                .find(|eip| eip.ipv4.as_ref() == Some(&address))?;
            Some((node.name.clone(), eip.since))
        });
        let (name, since) = owned.with_context(|| format!("nobody owns {address}: {status:?}"))?;
        Ok(Ownership {
            node: index_of(&name)?,
            since: since.context("owned since when?")?.to_string(),
        })
    }

    /// Waits until somebody other than `former` owns the client's egress IP.
    ///
    /// # Errors
    /// Nobody does within [`PATIENCE`].
    pub fn await_owner_other_than(&self, former: Option<u8>) -> Result<Ownership> {
        let owner = within(PATIENCE, || {
            let owner = self.owner()?;
            ensure!(Some(owner.node) != former, "{owner:?} owns it");
            Ok(owner)
        });
        owner.map_err(|reason| anyhow!(reason))
    }

    /// Every node's state, by its name, as its NodeHealth has it.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn states(&self) -> Result<BTreeMap<String, State>> {
        let healths = self.site.plane().client().call(|client| async move {
            let healths: Api<NodeHealth> = Api::all(client);
            healths.list(&ListParams::default()).await
        })?;
        let state = |health: NodeHealth| {
            let state = health.status.as_ref().map(|status| status.state);
            (health.name_any(), state.unwrap_or(State::Unknown))
        };
        Ok(healths.items.into_iter().map(state).collect())
    }

    /// Waits until node `name` is in `state`; `None` for one that is not spoken of.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`].
    pub fn await_state(&self, name: &str, state: Option<State>) -> Result<()> {
        let reached = within(PATIENCE, || {
            let is = self.states()?.get(name).copied();
            ensure!(is == state, "{name} is {is:?}");
            Ok(())
        });
        reached.map_err(|reason| anyhow!(reason))
    }

    /// Waits until all nodes are AVAILABLE.
    ///
    /// # Errors
    /// One is not within [`PATIENCE`].
    pub fn await_all_available(&self) -> Result<()> {
        let available = Some(State::Available);
        self.indices()
            .try_for_each(|index| self.await_state(&format!("n{index}"), available))
    }

    /// The node of the controller that leads.
    ///
    /// # Errors
    /// Nobody leads, or the API server does not answer.
    pub fn leader(&self) -> Result<u8> {
        let leases: ObjectList<Lease> = self.list()?;
        let lease = leases
            .items
            .into_iter()
            .find(|lease| lease.name_any() == "pulsepath-controller");
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        // Behind the Pod's name is what tells one start of it from the next.
        let holder = holder
            .as_deref()
            .and_then(|holder| holder.split('_').next());
        let holder = holder
            .filter(|holder| !holder.is_empty())
            .context("nobody leads")?;
        let pods: ObjectList<Pod> = self.list()?;
        let pod = pods.items.into_iter().find(|pod| pod.name_any() == holder);
        let node = pod.and_then(|pod| pod.spec?.node_name);
        index_of(&node.with_context(|| format!("{holder} is on no node"))?)
    }

    /// All objects of a kind in the release's namespace.
    fn list<K>(&self) -> Result<ObjectList<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        self.site.plane().client().call(|client| async move {
            let objects: Api<K> = Api::namespaced(client, RELEASE);
            objects.list(&ListParams::default()).await
        })
    }

    /// The Events about `name` with `reason`.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn events(&self, name: &str, reason: &str) -> Result<Vec<Value>> {
        let selector = format!("involvedObject.name={name},reason={reason}");
        let asked = ["get", "events", "--namespace=default", "--output=json"];
        let selected = [asked.as_slice(), &["--field-selector", &selector]].concat();
        let answer: Value = serde_json::from_str(&self.site.plane().kubectl(&selected)?)?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    /// What the controllers have asked of the API server.
    ///
    /// # Errors
    /// The API server's audit log cannot be read.
    pub fn account(&self) -> Result<Account> {
        Account::read(&self.site.plane().audit_log())
    }

    /// Kills the controllers on these nodes; their kubelets start them again.
    ///
    /// # Errors
    /// One has none.
    pub fn kill_controllers(&self, nodes: &[u8]) -> Result<()> {
        for index in nodes {
            let killed = self
                .site
                .machine(*index)?
                .signal("pulsepath-controller", Signal::SIGKILL)?;
            ensure!(killed > 0, "no controller runs on n{index}");
        }
        Ok(())
    }

    /// Takes everything back that tests do: links, labels, gateways.
    ///
    /// # Errors
    /// The cluster does not come back within [`PATIENCE`].
    pub fn settle(&mut self) -> Result<()> {
        self.site.check_alive()?;
        for index in self.indices() {
            self.site.set_links(index, LinkState::Up)?;
        }
        self.label_nodes()?;
        self.site
            .plane()
            .kubectl(&["delete", "egressgateways", "--all"])?;
        self.await_all_available()
    }

    /// The numbers of all nodes.
    pub fn indices(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.site.cluster().nodes().len()).unwrap_or(u8::MAX)
    }

    /// What it is installed on.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// What it is installed on, to harm it.
    pub fn site_mut(&mut self) -> &mut Site {
        &mut self.site
    }

    /// What there is to know if something went wrong.
    pub fn report(&self) -> String {
        let show = |arguments: &[&str]| match self.site.plane().kubectl(arguments) {
            Ok(text) => text,
            Err(error) => format!("{error:#}\n"),
        };
        let mut report = show(&["get", "egw,nh", "--output=yaml"]);
        report += &self.site.report();
        for (index, machine) in (1..).zip(self.site.machines()) {
            for container in ["agent", "controller"] {
                report += &format!("---- {container} on machine {index}\n");
                report += &machine.container_log(container);
            }
        }
        report
    }

    /// The chart.
    pub fn chart() -> &'static Path {
        Path::new(CHART)
    }
}

/// 3 of `n3`.
fn index_of(name: &str) -> Result<u8> {
    let index = name
        .strip_prefix('n')
        .and_then(|digits| digits.parse().ok());
    index.with_context(|| format!("{name} is no node of the harness"))
}
