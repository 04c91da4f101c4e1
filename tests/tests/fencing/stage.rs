//! A scene whose egress IP is asked for all the time, and whose every frame is recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pulsepath_tests::egress::{Claim, EGRESS_IP, Recorder, Scene, Setup, Use, overlap};
use pulsepath_tests::{Direction, LinkState, Process};

use crate::provocation::Provocation;

/// As the configuration says it.
pub(crate) const STRICT: &str = "fencing = 'strict'\nlease = '2s'\nfailover.damping.count = 0";
pub(crate) const LEASE: Duration = Duration::from_secs(2);

pub(crate) struct Stage {
    recorder: Recorder,
    _provocation: Provocation,
    pub(crate) owner: u8,
    pub(crate) scene: Scene,
    _alone: MutexGuard<'static, ()>,
}

/// What the recorder saw of a move.
pub(crate) struct Seen {
    claims: Vec<Claim>,
    old: u8,
    new: u8,
}

impl Stage {
    /// All is well, and an owner answers. The client's next hop is the owner's own link-layer address
    /// for good: it would not notice that the address has gone elsewhere.
    pub(crate) fn start(purpose: &str, settings: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let setup = Setup {
            settings: settings.to_owned(),
            ..Setup::default()
        };
        let scene = Scene::start(purpose, setup).unwrap();
        let owner = scene.owner().unwrap();
        let outside = scene.external().outside();
        let stage = Self {
            recorder: Recorder::start(scene.external(), EGRESS_IP.into()).unwrap(),
            _provocation: Provocation::start(outside, EGRESS_IP),
            owner,
            scene,
            _alone: alone,
        };
        stage.pin_the_client();
        stage
    }

    fn pin_the_client(&self) {
        let node = self.scene.node(self.owner).netns();
        let link = node.ip("-brief link show dev ext0").unwrap();
        let mac = link.split_whitespace().nth(2).unwrap();
        let client = self.scene.external().client();
        let neighbour =
            format!("neighbour replace {EGRESS_IP} lladdr {mac} dev eth0 nud permanent");
        client.ip(&neighbour).unwrap();
    }

    pub(crate) fn other(&self) -> u8 {
        3 - self.owner
    }

    /// The owner's management link goes; its external one stays.
    pub(crate) fn cut_management(&self) {
        self.scene
            .cluster()
            .set_link(self.owner, LinkState::Down)
            .unwrap();
    }

    /// Probes or replies of the owner are lost.
    pub(crate) fn drop_management(&self, direction: Direction) {
        self.scene
            .cluster()
            .drop_packets(self.owner, direction)
            .unwrap();
    }

    /// The owner's agent, which is killed on drop.
    pub(crate) fn take_agent(&mut self) -> Process {
        self.scene.take_agent(self.owner).unwrap()
    }

    /// Waits until the other node owns the address and has been seen for a while.
    pub(crate) fn await_move(self) -> Seen {
        self.scene.await_owner(self.other()).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let (old, new) = (self.owner, self.other());
        Seen {
            claims: self.recorder.finish().unwrap(),
            old,
            new,
        }
    }

    /// What has been recorded until now; nothing moved.
    pub(crate) fn finish(self) -> Vec<Claim> {
        self.recorder.finish().unwrap()
    }
}

impl Seen {
    /// For how long both were seen.
    pub(crate) fn overlap(&self) -> Duration {
        let overlap = overlap(&self.claims, self.old, self.new);
        println!(
            "old owner {:.0?}, new owner {:.0?}, two owners for {overlap:.1?}",
            self.span(self.old),
            self.span(self.new)
        );
        overlap
    }

    /// How long the old owner was seen after `since`.
    pub(crate) fn old_owner_after(&self, since: Instant) -> Duration {
        let last = self.claims.iter().rfind(|claim| claim.node == self.old);
        last.map_or(Duration::ZERO, |last| {
            last.at.saturating_duration_since(since)
        })
    }

    /// Whether both kinds of frames of the old owner, and any of the new one, were seen at all.
    pub(crate) fn is_telling(&self) -> bool {
        let by = |how: Use| {
            let mut claims = self.claims.iter();
            claims.any(|claim| claim.node == self.old && claim.how == how)
        };
        let mut claims = self.claims.iter();
        by(Use::Packet) && by(Use::Neighbour) && claims.any(|claim| claim.node == self.new)
    }

    fn span(&self, node: u8) -> Duration {
        let of_node = || self.claims.iter().filter(|claim| claim.node == node);
        match (of_node().next(), of_node().next_back()) {
            (Some(first), Some(last)) => last.at - first.at,
            _ => Duration::ZERO,
        }
    }
}
