//! etcd, API server, controller manager and scheduler.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::authority::{Authority, User};
use super::kubeconfig::Access;
use super::{Client, Keeper, programs};
use crate::command::{run, run_with_input};
use crate::{Cluster, Netns, Process, within};

/// The API server's own address, in the hub.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
/// Services' addresses. The first is that of the Service `kubernetes`: the API server has it itself.
const SERVICES: &str = "10.96.0.0/16";
const SERVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEER: &str = "http://127.0.0.1:2380";
const AUDIT_LOG: &str = "audit.log";
/// On a quiet machine it takes five seconds.
const STARTING: Duration = Duration::from_secs(120);

/// What makes a cluster of nodes. Its processes are inside the hub.
pub struct ControlPlane {
    // Who uses another comes first: they are dropped in this order.
    others: Vec<Process>,
    api_server: Option<Process>,
    etcd: Process,
    api_server_arguments: Vec<OsString>,
    client: Client,
    admin: PathBuf,
    authority: Authority,
    files: PathBuf,
    hub: Arc<Netns>,
    keeper: Arc<Keeper>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts everything in the hub of `cluster`, and waits until the API server is ready and the
    /// controller manager works.
    ///
    /// # Errors
    /// A program is missing, ends, or is not ready within two minutes.
    pub fn start(cluster: &Cluster, keeper: &Arc<Keeper>) -> Result<Self> {
        let hub = cluster.shared_hub();
        let files = cluster.files().join("control-plane");
        fs::create_dir(&files).with_context(|| format!("make {}", files.display()))?;
        hub.ip(&format!("address add {SERVICE_ADDRESS}/32 dev lo"))?;
        let authority = Authority::new(&files)?;
        let admin = access(&authority, &files).write("admin", MASTER)?;
        let mut plane = Self {
            others: Vec::new(),
            api_server: None,
            etcd: keeper.spawn(
                "etcd",
                hub_command(&hub, programs::etcd()?, etcd_arguments(&files)),
                &files.join("etcd.log"),
            )?,
            api_server_arguments: api_server_arguments(&authority, &files)?,
            client: Client::new(&hub, &admin)?,
            admin,
            authority,
            files,
            hub,
            keeper: Arc::clone(keeper),
        };
        plane.start_api_server()?;
        plane.start_controller_manager()?;
        plane.start_scheduler()?;
        plane.await_controllers()?;
        Ok(plane)
    }

    /// Starts the API server, and waits until it is ready.
    ///
    /// # Errors
    /// It ends, or is not ready within two minutes.
    pub fn start_api_server(&mut self) -> Result<()> {
        let arguments = self.api_server_arguments.clone();
        let mut server = self.spawn("kube-apiserver", arguments)?;
        let ready = within(STARTING, || match server.exited() {
            Some(status) => Ok(Some(status)),
            None => self.kubectl(&["get", "--raw=/readyz"]).map(|_| None),
        });
        match ready {
            Ok(None) => {}
            Ok(Some(status)) => return Err(anyhow!("API server: {status}\n{}", server.log())),
            Err(reason) => return Err(anyhow!("API server: {reason}\n{}", server.log())),
        }
        self.api_server = Some(server);
        Ok(())
    }

    /// Kills the API server.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill_api_server(&mut self) -> Result<()> {
        let server = self.api_server.take();
        server.context("the API server does not run")?.kill()
    }

    fn start_controller_manager(&mut self) -> Result<()> {
        let user = User::named("system:kube-controller-manager");
        let kubeconfig = self.access().write("kube-controller-manager", user)?;
        let mut arguments = of_component(&kubeconfig);
        arguments.extend([
            option(
                "service-account-private-key-file",
                self.files.join("tokens.key"),
            ),
            option("root-ca-file", self.authority.certificate()),
            "--use-service-account-credentials".into(),
        ]);
        let process = self.spawn("kube-controller-manager", arguments)?;
        self.others.push(process);
        Ok(())
    }

    fn start_scheduler(&mut self) -> Result<()> {
        let user = User::named("system:kube-scheduler");
        let kubeconfig = self.access().write("kube-scheduler", user)?;
        let process = self.spawn("kube-scheduler", of_component(&kubeconfig))?;
        self.others.push(process);
        Ok(())
    }

    /// Waits for what the controller manager makes before any Pod can be made.
    fn await_controllers(&mut self) -> Result<()> {
        let made = within(STARTING, || {
            self.check_alive()?;
            self.kubectl(&["get", "serviceaccount", "default"])
        });
        made.map(drop)
            .map_err(|reason| anyhow!("controller manager: {reason}"))
    }

    fn spawn(&self, name: &str, arguments: Vec<OsString>) -> Result<Process> {
        let command = hub_command(&self.hub, programs::kubernetes(name)?, arguments);
        let log = self.files.join(format!("{name}.log"));
        self.keeper.spawn(name, command, &log)
    }

    /// A client that may do everything.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The file by which programs are clients that may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Where the API server notes what controllers ask for.
    pub(super) fn audit_log(&self) -> PathBuf {
        self.files.join(AUDIT_LOG)
    }

    /// The file by which the kubelet of `node` is a client.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn kubelet_access(&self, node: &str) -> Result<PathBuf> {
        let user = User {
            name: &format!("system:node:{node}"),
            group: Some("system:nodes"),
        };
        self.access().write(&format!("kubelet-{node}"), user)
    }

    /// The certificate of whoever may call kubelets.
    pub(super) fn client_authority(&self) -> PathBuf {
        self.authority.certificate()
    }

    fn access(&self) -> Access<'_> {
        access(&self.authority, &self.files)
    }

    /// A command inside the hub, for which the cluster is the one that it talks to.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.hub.command(program.as_ref());
        command.env("KUBECONFIG", &self.admin);
        command
    }

    /// Runs kubectl and returns what it prints.
    ///
    /// # Errors
    /// What it says.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        run(self
            .command(programs::kubernetes("kubectl")?)
            .args(arguments))
    }

    /// As [`Self::kubectl`], with `input`.
    ///
    /// # Errors
    /// What it says.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let program = programs::kubernetes("kubectl")?;
        run_with_input(self.command(program).args(arguments), input)
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// The API server refuses it.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_with(&["apply", "--server-side", "-f", "-"], manifest)
    }

    /// Fails if a process that should run has ended.
    ///
    /// # Errors
    /// With what it wrote.
    pub fn check_alive(&mut self) -> Result<()> {
        let processes = self.others.iter_mut().chain(&mut self.api_server);
        for process in processes.chain([&mut self.etcd]) {
            if let Some(status) = process.exited() {
                return Err(anyhow!("it ended: {status}\n{}", process.log()));
            }
        }
        Ok(())
    }
}

/// Who may do everything.
const MASTER: User<'static> = User {
    name: "admin",
    group: Some("system:masters"),
};

fn access<'a>(authority: &'a Authority, files: &'a Path) -> Access<'a> {
    Access {
        authority,
        server: format!("https://{ADDRESS}"),
        directory: files,
    }
}

fn hub_command(hub: &Netns, program: PathBuf, arguments: Vec<OsString>) -> Command {
    let mut command = hub.command(program);
    command.args(arguments);
    command
}

fn etcd_arguments(files: &Path) -> Vec<OsString> {
    vec![
        option("data-dir", files.join("etcd")),
        option("listen-client-urls", ETCD),
        option("advertise-client-urls", ETCD),
        option("listen-peer-urls", ETCD_PEER),
        option("initial-advertise-peer-urls", ETCD_PEER),
        option("initial-cluster", format!("default={ETCD_PEER}")),
        // What a crash of this machine would lose, nobody misses.
        "--unsafe-no-fsync".into(),
    ]
}

fn api_server_arguments(authority: &Authority, files: &Path) -> Result<Vec<OsString>> {
    let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let addresses = [ADDRESS, SERVICE_ADDRESS, Ipv4Addr::LOCALHOST].map(IpAddr::V4);
    let serving = authority.server("kube-apiserver", &names, &addresses)?;
    let calling = authority.client("kube-apiserver-kubelet", MASTER)?;
    let tokens = authority.bare("tokens")?;
    let audit_policy = files.join("audit.yaml");
    fs::write(&audit_policy, include_str!("files/audit.yaml"))
        .with_context(|| format!("write {}", audit_policy.display()))?;
    Ok(vec![
        option("advertise-address", ADDRESS.to_string()),
        // The port of the Service `kubernetes`, whose address is one of this server's own.
        option("secure-port", "443"),
        option("etcd-servers", ETCD),
        option("service-cluster-ip-range", SERVICES),
        option("authorization-mode", "Node,RBAC"),
        option("enable-admission-plugins", "NodeRestriction"),
        "--allow-privileged".into(),
        option("client-ca-file", authority.certificate()),
        option("tls-cert-file", serving.cert),
        option("tls-private-key-file", serving.key),
        // Nobody resolves nodes' names here.
        option("kubelet-preferred-address-types", "InternalIP"),
        option("kubelet-client-certificate", calling.cert),
        option("kubelet-client-key", calling.key),
        option("service-account-issuer", "https://kubernetes.default.svc"),
        option("service-account-key-file", tokens.cert),
        option("service-account-signing-key-file", tokens.key),
        option("audit-policy-file", audit_policy),
        option("audit-log-path", files.join(AUDIT_LOG)),
        option("cert-dir", files),
    ])
}

/// What a component without a second instance is told.
fn of_component(kubeconfig: &Path) -> Vec<OsString> {
    vec![
        option("kubeconfig", kubeconfig),
        option("authentication-kubeconfig", kubeconfig),
        option("authorization-kubeconfig", kubeconfig),
        option("bind-address", "127.0.0.1"),
        "--leader-elect=false".into(),
    ]
}

fn option(name: &str, value: impl Into<OsString>) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(value.into());
    option
}
