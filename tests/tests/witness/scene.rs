//! A gateway node `n1` and its witnesses, real agents all, and a controller that says what a test
//! wants it to say.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use probe_ebpf::maps::NodeLease;
use probe_user::channel::proto::agent_client::AgentClient;
use probe_user::channel::{AskReport, Duty, Heard, Push, Question, Report, Watched, WitnessReport};
use probe_user::egress::Desired;
use probe_user::kernel::{Maps, WitnessSet, version_directory};
use pulsepath_tests::{Cluster, Node, Process, bin_dir, eventually};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The lease that votes ask for, long enough for a busy machine.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
const PERIOD: Duration = Duration::from_millis(100);
/// The gateway node.
pub(crate) const GATEWAY: u8 = 1;

pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    agents: Vec<Option<Process>>,
}

impl Scene {
    /// The gateway node and so many others, each with an agent that runs.
    pub(crate) fn new(purpose: &str, witnesses: u8) -> Self {
        let cluster = Cluster::new(&format!("witness-{purpose}"), 1 + witnesses).unwrap();
        let mut scene = Self {
            cluster,
            agents: Vec::new(),
        };
        scene
            .agents
            .resize_with(usize::from(witnesses) + 2, || None);
        for index in 1..=1 + witnesses {
            scene.start(index);
        }
        scene
    }

    pub(crate) fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    /// Starts a node's agent, and waits until it is ready.
    pub(crate) fn start(&mut self, index: u8) {
        let node = self.cluster.node(index);
        let config = node.agent_config("control.plaintext = true");
        let agent = node.spawn_agent(&config).unwrap();
        self.wait_for(index, agent);
    }

    /// Starts a node's agent without the right to load kernel programs.
    pub(crate) fn start_without_programs(&mut self, index: u8) {
        let node = self.cluster.node(index);
        let file = node.config_file("restricted");
        let config = node.agent_config("control.plaintext = true");
        std::fs::write(&file, config).unwrap();
        let mut command = node.netns().command("setpriv");
        command.args([
            "--bounding-set=-all,+net_bind_service,+net_admin,+net_raw,+dac_override",
            "--inh-caps=-all",
        ]);
        let agent = bin_dir().unwrap().join("pulsepath-agent");
        command.arg(agent).args(["run", "--config"]).arg(&file);
        let log = file.with_extension("log");
        let agent = Process::spawn("restricted", &command, &log).unwrap();
        self.wait_for(index, agent);
    }

    fn wait_for(&mut self, index: u8, agent: Process) {
        self.agents[usize::from(index)] = Some(agent);
        let node = self.cluster.node(index);
        eventually(SOON, || {
            let ready = node.agent_http("/ready");
            ready.is_ok_and(|answer| answer.status == 200)
        });
    }

    pub(crate) fn agent(&mut self, index: u8) -> &mut Process {
        self.agents[usize::from(index)].as_mut().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, index: u8) {
        self.agent(index).kill().unwrap();
        self.agents[usize::from(index)] = None;
    }

    /// Calls a node's agent from the network.
    fn call<T: Send>(
        &self,
        index: u8,
        call: impl AsyncFnOnce(AgentClient<Channel>) -> Result<Response<T>, Status> + Send,
    ) -> Result<T, Status> {
        let address = SocketAddr::new(IpAddr::V4(self.node(index).ipv4()), 9862);
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
                call(AgentClient::new(endpoint.connect().await.unwrap())).await
            })
        };
        let answer = self.cluster.hub().enter(run).unwrap();
        answer.map(Response::into_inner)
    }

    pub(crate) fn try_tell(&self, index: u8, duty: Duty) -> Result<WitnessReport, Status> {
        let call = async |mut client: AgentClient<_>| client.witness(duty_request(duty)).await;
        self.call(index, call).map(Into::into)
    }

    pub(crate) fn tell(&self, index: u8, duty: Duty) -> WitnessReport {
        self.try_tell(index, duty).unwrap()
    }

    pub(crate) fn try_ask(&self, index: u8, question: Question) -> Result<AskReport, Status> {
        let call = async |mut client: AgentClient<_>| client.ask(ask_request(question)).await;
        let report = self.call(index, call)?;
        Ok(report.try_into().unwrap())
    }

    /// Which witness a node is.
    pub(crate) fn instance(&self, index: u8) -> u64 {
        let duty = Duty {
            instance: None,
            ..self.duty(index, 0, Vec::new())
        };
        self.tell(index, duty).instance
    }

    /// What a witness has heard of the gateway.
    pub(crate) fn heard(&self, index: u8) -> Option<Heard> {
        let duty = Duty {
            instance: None,
            version: 0,
            watched: Vec::new(),
            period: PERIOD,
            lease: LEASE,
            port: 862,
        };
        self.tell(index, duty).heard.into_iter().next()
    }

    /// The gateway as a witness is to watch it.
    pub(crate) fn watched(&self, index: u8, floor: u64) -> Watched {
        let node = self.node(index);
        Watched {
            keys: self.cluster.keys().node_keys(&node.name()),
            addresses: vec![node.ipv4().into(), node.ipv6().into()],
            floor,
            vote: true,
        }
    }

    /// A duty of the witness that node `index` is now.
    pub(crate) fn duty(&self, index: u8, version: u64, watched: Vec<Watched>) -> Duty {
        let instance = (version != 0).then(|| self.instance(index));
        Duty {
            version,
            instance,
            watched,
            period: PERIOD,
            lease: LEASE,
            port: 862,
        }
    }

    /// Has node `index` watch the gateway, and vote under this floor.
    pub(crate) fn watch(&self, index: u8, version: u64, floor: u64) -> WitnessReport {
        let watched = self.watched(GATEWAY, floor);
        self.tell(index, self.duty(index, version, vec![watched]))
    }

    /// Gives the gateway an epoch and a witness set.
    pub(crate) fn push(&self, epoch: u64, witnesses: Option<WitnessSet>) -> Report {
        self.try_push(epoch, witnesses).unwrap()
    }

    pub(crate) fn try_push(
        &self,
        epoch: u64,
        witnesses: Option<WitnessSet>,
    ) -> Result<Report, Status> {
        let push = Push {
            incarnation: None,
            desired: Desired {
                epoch,
                lease_ms: LEASE.as_millis() as u32,
                witnesses,
                ..Desired::default()
            },
        };
        let request = tonic::Request::new(push.into());
        let call = async |mut client: AgentClient<_>| client.apply(request).await;
        let report = self.call(GATEWAY, call)?;
        Ok(report.try_into().unwrap())
    }

    /// The witness set of these nodes.
    pub(crate) fn set(&self, version: u64, witnesses: &[u8]) -> WitnessSet {
        WitnessSet {
            version,
            instances: witnesses.iter().map(|it| self.instance(*it)).collect(),
        }
    }

    /// The gateway's lease, as its kernel has it.
    pub(crate) fn lease(&self) -> NodeLease {
        let pins = version_directory(self.node(GATEWAY).pin_dir());
        Maps::open(&pins).unwrap().lease().unwrap()
    }

    /// Whether the gateway has its lease now.
    pub(crate) fn is_held(&self) -> bool {
        self.lease().is_held(boot_now())
    }

    pub(crate) fn wait_until_held(&self) {
        eventually(SOON, || self.is_held());
    }

    pub(crate) fn wait_until_lapsed(&self) {
        eventually(SOON, || !self.is_held());
    }
}

/// The boot clock, ns.
pub(crate) fn boot_now() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    Duration::from(now).as_nanos() as u64
}

fn duty_request(duty: Duty) -> tonic::Request<probe_user::channel::proto::WitnessRequest> {
    tonic::Request::new(duty.into())
}

fn ask_request(question: Question) -> tonic::Request<probe_user::channel::proto::AskRequest> {
    tonic::Request::new(question.into())
}
