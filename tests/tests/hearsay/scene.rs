//! An installation whose controller can be kept from hearing the owner of the egress IP, whom
//! everybody else hears.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use controller::api::{self, Condition, Explanation, State};
use pulsepath_tests::egress::{PATIENCE, Scene, Setup};
use pulsepath_tests::{Node, Repeatedly, eventually, run};

/// Twice that of the default profile: half of it must be enough to ask somebody, on a busy machine, too.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const PERIOD: Duration = Duration::from_millis(200);
const VXLAN: u16 = 4789;

pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) owner: u8,
    /// Times are measured: one at a time.
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// Four nodes, all is well. The controller is on the last one; one of the first two owns the
    /// egress IP, the other one may.
    pub(crate) fn start(purpose: &str, settings: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let setup = Setup {
            settings: format!("timeout = '2s'\nfailover.damping.count = 0\n{settings}"),
            // That a busy machine may keep an agent from beating is another matter.
            agent_settings: "beat.timeout = '5s'\ntunnels.enabled = true\n".to_owned(),
            ..Setup::default()
        };
        let scene = Scene::start(purpose, setup).unwrap();
        let owner = scene.owner().unwrap();
        Self {
            scene,
            owner,
            _alone: alone,
        }
    }

    pub(crate) fn other(&self) -> u8 {
        3 - self.owner
    }

    /// Whatever the owner sends to the controller's node, and only there, is lost from now on.
    pub(crate) fn cut_path(&self) {
        drop_input(self.scene.controller_node(), &self.owners_packets());
    }

    /// Packets of the owner's, for rules.
    fn owners_packets(&self) -> [String; 2] {
        let owner = self.scene.node(self.owner);
        let (ipv4, ipv6) = (owner.ipv4(), owner.ipv6());
        [format!("ip saddr {ipv4}"), format!("ip6 saddr {ipv6}")]
    }

    /// Ends what [`Self::cut_path`] began.
    pub(crate) fn mend_path(&self) {
        nft(self.scene.controller_node(), "delete table inet cut");
    }

    /// Whatever the owner answers to anybody's probes is lost from now on.
    pub(crate) fn lose_replies(&self) {
        let replies = self
            .owners_packets()
            .map(|it| format!("{it} udp sport 862"));
        for index in self.scene.indices().filter(|it| *it != self.owner) {
            drop_input(self.scene.node(index), &replies);
        }
    }

    /// Packets come from the owner's tunnels to every other node, until this is dropped.
    pub(crate) fn busy_tunnels(&self) -> Repeatedly {
        let owner = self.scene.node(self.owner);
        let others = self.scene.indices().filter(|it| *it != self.owner);
        let others: Vec<_> = others.map(|it| self.scene.node(it).ipv4()).collect();
        let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        let socket = owner.netns().enter(bind).unwrap().unwrap();
        Repeatedly::start(PERIOD / 10, move || {
            for other in &others {
                // Its link may be cut.
                let _ = socket.send_to(&[8; 100], (*other, VXLAN));
            }
        })
    }

    /// What the controller knows of the owner.
    pub(crate) fn node(&self) -> api::Node {
        let path = format!("/v1/nodes/n{}", self.owner);
        let answer = self.scene.controller_node().controller_http(&path).unwrap();
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The condition that says that only others hear the owner.
    pub(crate) fn path_down(&self) -> Option<Condition> {
        self.condition("ControllerPathDown")
    }

    pub(crate) fn condition(&self, name: &str) -> Option<Condition> {
        let mut conditions = self.node().conditions.into_iter();
        conditions.find(|it| it.name == name)
    }

    pub(crate) fn await_path_down(&self) -> Condition {
        eventually(PATIENCE, || self.path_down())
    }

    /// What `pulsepath explain` says of the owner.
    pub(crate) fn explanation(&self) -> String {
        let path = format!("/v1/explain/n{}", self.owner);
        let answer = self.scene.controller_node().controller_http(&path).unwrap();
        let explanation: Explanation = serde_json::from_str(&answer.body).unwrap();
        explanation.sentences.join(" ")
    }

    /// A metric of the controller's, 0 if it has none of this name and these labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let answer = self.scene.controller_node().controller_http("/metrics");
        let body = answer.unwrap().body;
        let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        body.lines().find_map(value).unwrap_or(0.0)
    }

    pub(crate) fn asks(&self, outcome: &str) -> f64 {
        self.metric(&format!("pulsepath_asks_total{{outcome=\"{outcome}\"}}"))
    }

    /// Waits until the owner is UNREACHABLE; how long that took since `began`.
    pub(crate) fn await_given_up(&self, began: Instant) -> Duration {
        self.scene
            .await_state(self.owner, State::Unreachable)
            .unwrap();
        began.elapsed()
    }
}

fn drop_input(node: &Node, packets: &[String]) {
    let rule = |packets: &String| format!("; add rule inet cut input {packets} drop");
    let rules: String = packets.iter().map(rule).collect();
    let chain = "add chain inet cut input { type filter hook input priority -300; }";
    nft(node, &format!("add table inet cut; {chain}{rules}"));
}

fn nft(node: &Node, rules: &str) {
    run(node.netns().command("nft").arg(rules)).unwrap();
}
