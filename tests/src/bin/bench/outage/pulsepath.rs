//! Pulsepath as a contender: agents on all nodes, and a controller.

use anyhow::Result;
use pulsepath_tests::egress::{External, Scene, Setup};

use super::client::Contender;

/// An installation at rest.
pub(super) struct Pulsepath {
    pub(super) scene: Scene,
}

impl Pulsepath {
    /// Starts everything with `profile`. However often a node falls, it is not damped.
    pub(super) fn start(profile: &str) -> Result<Self> {
        let setup = Setup {
            settings: format!("profile = \"{profile}\"\nfailover.damping.count = 0"),
            ..Setup::default()
        };
        let scene = Scene::start(&format!("bench-{profile}"), setup)?;
        Ok(Self { scene })
    }
}

impl Contender for Pulsepath {
    fn external(&self) -> &External {
        self.scene.external()
    }

    fn owner(&self) -> Result<u8> {
        self.scene.owner()
    }

    fn cut(&self, index: u8) -> Result<()> {
        self.scene.cut(index)
    }

    fn await_owner(&self, index: u8) -> Result<()> {
        self.scene.await_owner(index)
    }

    fn mend(&self, index: u8) -> Result<()> {
        self.scene.heal(index)?;
        self.scene.await_released(index)?;
        self.scene.await_eligible(index)
    }
}
