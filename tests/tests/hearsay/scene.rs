//! An installation whose controller can be kept from hearing the owner of the egress IP, whom
//! everybody else hears.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use controller::api::{Condition, Explanation, Node, State};
use pulsepath_tests::egress::{PATIENCE, Scene, Setup};
use pulsepath_tests::{eventually, run};

/// Twice that of the default profile: half of it must be enough to ask somebody, on a busy machine, too.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const PERIOD: Duration = Duration::from_millis(200);

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
            agent_settings: "beat.timeout = '5s'\n".to_owned(),
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
        let owner = self.scene.node(self.owner);
        let (ipv4, ipv6) = (owner.ipv4(), owner.ipv6());
        self.nft(&format!(
            "add table inet cut; \
             add chain inet cut input {{ type filter hook input priority -300; }}; \
             add rule inet cut input ip saddr {ipv4} drop; \
             add rule inet cut input ip6 saddr {ipv6} drop"
        ));
    }

    /// Ends what [`Self::cut_path`] began.
    pub(crate) fn mend_path(&self) {
        self.nft("delete table inet cut");
    }

    fn nft(&self, rules: &str) {
        let mut nft = self.scene.controller_node().netns().command("nft");
        run(nft.arg(rules)).unwrap();
    }

    /// What the controller knows of the owner.
    pub(crate) fn node(&self) -> Node {
        let path = format!("/v1/nodes/n{}", self.owner);
        let answer = self.scene.controller_node().controller_http(&path).unwrap();
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The condition that says that only others hear the owner.
    pub(crate) fn path_down(&self) -> Option<Condition> {
        let mut conditions = self.node().conditions.into_iter();
        conditions.find(|it| it.name == "ControllerPathDown")
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
