//! A cluster of machines, with the external segment that egress IPs are on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use kube::Api;
use kube::api::ListParams;

use super::{ControlPlane, Keeper, Machine, write_images};
use crate::egress::External;
use crate::{Cluster, LinkState, Node, within};

/// Containers start within seconds; on a busy machine they take far longer.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Everything that a cluster with egress IPs consists of, Pulsepath not yet among it.
#[derive(Debug)]
pub struct Site {
    // Who uses another comes first: they are dropped in this order.
    machines: Vec<Option<Machine>>,
    plane: ControlPlane,
    external: External,
    images: PathBuf,
    keeper: Arc<Keeper>,
    cluster: Cluster,
}

impl Site {
    /// Starts a control plane and `nodes` machines, whose images have each of `tags`, and waits until all
    /// nodes are ready.
    ///
    /// # Errors
    /// Something is missing, or does not start within [`PATIENCE`].
    pub fn start(purpose: &str, nodes: u8, tags: &[&str]) -> Result<Self> {
        let cluster = Cluster::new(purpose, nodes)?;
        let external = External::new(purpose, &cluster)?;
        let images = cluster.files().join("images");
        write_images(&images, tags)?;
        connect_pods(&cluster)?;
        let keeper = Arc::new(Keeper::default());
        let plane = ControlPlane::start(&cluster, &keeper)?;
        let mut site = Self {
            machines: cluster.nodes().iter().map(|_| None).collect(),
            plane,
            external,
            images,
            keeper,
            cluster,
        };
        (1..=nodes).try_for_each(|index| site.start_machine(index))?;
        (1..=nodes).try_for_each(|index| site.await_ready(index))?;
        Ok(site)
    }

    /// Starts the machine of node `index`, without waiting for it.
    ///
    /// # Errors
    /// As [`Machine::start`].
    pub fn start_machine(&mut self, index: u8) -> Result<()> {
        let node = self.cluster.node(index);
        let machine = Machine::start(node, &self.plane, &self.images, &self.keeper)?;
        self.machines[usize::from(index) - 1] = Some(machine);
        Ok(())
    }

    /// Cuts the power of node `index`'s machine.
    pub fn stop_machine(&mut self, index: u8) {
        self.machines[usize::from(index) - 1] = None;
    }

    /// The machine of node `index`.
    ///
    /// # Errors
    /// It has no power.
    pub fn machine(&self, index: u8) -> Result<&Machine> {
        let machine = self.machines[usize::from(index) - 1].as_ref();
        machine.with_context(|| format!("n{index} has no power"))
    }

    /// The machines that have power.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().flatten()
    }

    /// Waits until the node of machine `index` is ready.
    ///
    /// # Errors
    /// The machine ends, or it takes longer than [`PATIENCE`].
    pub fn await_ready(&mut self, index: u8) -> Result<()> {
        let name = self.cluster.node(index).name();
        let ready = within(PATIENCE, || {
            self.check_alive()?;
            ensure!(self.is_ready(&name)?, "node {name} is not ready");
            Ok(())
        });
        ready.map_err(|reason| anyhow::anyhow!("{reason}\n{}", self.report()))
    }

    fn is_ready(&self, name: &str) -> Result<bool> {
        let nodes = self.plane.client().call(|client| async move {
            let nodes: Api<KubernetesNode> = Api::all(client);
            nodes.list(&ListParams::default()).await
        })?;
        let is_this = |node: &&KubernetesNode| node.metadata.name.as_deref() == Some(name);
        let status = nodes
            .items
            .iter()
            .find(is_this)
            .and_then(|node| node.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "Ready");
        Ok(ready.is_some_and(|condition| condition.status == "True"))
    }

    /// Fails if anything that should run has ended.
    ///
    /// # Errors
    /// With what it wrote.
    pub fn check_alive(&mut self) -> Result<()> {
        self.plane.check_alive()?;
        self.machines
            .iter_mut()
            .flatten()
            .try_for_each(Machine::check_alive)
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The control plane, to harm it.
    pub fn plane_mut(&mut self) -> &mut ControlPlane {
        &mut self.plane
    }

    /// The nodes' network.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Node `index`.
    pub fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    /// The external segment, with client and server.
    pub fn external(&self) -> &External {
        &self.external
    }

    /// Takes all links of node `index` away, or gives them back.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_links(&self, index: u8, state: LinkState) -> Result<()> {
        self.cluster.set_link(index, state)?;
        self.external.set_link(index, state)
    }

    /// What there is to know about a cluster in which something went wrong.
    pub fn report(&self) -> String {
        let asked = [
            &["get", "nodes,pods", "--all-namespaces", "-o", "wide"][..],
            &[
                "get",
                "events",
                "--all-namespaces",
                "--sort-by=.lastTimestamp",
            ][..],
        ];
        let answers = asked.map(|arguments| match self.plane.kubectl(arguments) {
            Ok(text) => text,
            Err(error) => format!("{error:#}\n"),
        });
        let kubelets = self.machines().map(|machine| machine.kubelet_log(15));
        answers
            .into_iter()
            .chain(kubelets)
            .collect::<Vec<_>>()
            .join("----\n")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.report());
        }
    }
}

/// Routes between Pods of different nodes, and to Services: through the hub.
fn connect_pods(cluster: &Cluster) -> Result<()> {
    let hub = cluster.hub();
    crate::run(hub.command("sysctl").args(["-qw", "net.ipv4.ip_forward=1"]))?;
    for node in cluster.nodes() {
        let (index, address) = (node.index(), node.ipv4());
        hub.ip(&format!("route add 10.244.{index}.0/24 via {address}"))?;
        node.netns().ip_batch(
            "route add 10.244.0.0/16 via 10.77.0.254\nroute add 10.96.0.0/16 via 10.77.0.254\n",
        )?;
    }
    Ok(())
}
