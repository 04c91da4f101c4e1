//! What can go wrong, and how that is brought about.

use std::time::Duration;

use anyhow::Result;
use controller::api::State;

use super::late::Late;
use crate::command::{bin_dir, run};
use crate::egress::Scene;
use crate::{Direction, LinkState, Signal};

/// Something that is wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node has no link.
    Cut(u8),
    /// It has none to the other nodes; the external one stays.
    CutManagement(u8),
    /// Nothing of one direction gets through on that link.
    OneWay(u8, Direction),
    /// These nodes hear each other, and nobody else; their external links stay.
    Split(Part),
    /// Probes or their answers take so long.
    Late(u8, Direction, Duration),
    /// A node's agent is dead, or does not run.
    Agent(u8, Stop),
    /// The same of the controller.
    Controller(Stop),
    /// A node is drained.
    Drain(u8),
    /// A node boots: it has no link, no process, and nothing of ours in its kernel.
    Reboot(u8),
}

/// Some of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part(u64);

impl FromIterator<u8> for Part {
    /// Of nodes 1 to 63.
    fn from_iter<T: IntoIterator<Item = u8>>(nodes: T) -> Self {
        Self(nodes.into_iter().fold(0, |part, node| part | 1 << node))
    }
}

impl Part {
    fn nodes(self) -> impl Iterator<Item = u8> {
        (1..64).filter(move |node| self.0 & 1 << node != 0)
    }
}

/// How a process stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// By SIGKILL.
    Killed,
    /// By SIGSTOP.
    Frozen,
}

/// A scene in which things go wrong.
#[derive(Debug)]
pub struct Trouble {
    late: Option<Late>,
    /// What is wrong now, in the order in which it went wrong.
    faults: Vec<Fault>,
    /// The scene.
    pub scene: Scene,
}

impl Trouble {
    /// Nothing is wrong yet.
    pub const fn new(scene: Scene) -> Self {
        Self {
            late: None,
            faults: Vec::new(),
            scene,
        }
    }

    /// Something goes wrong.
    ///
    /// # Errors
    /// It cannot be made to.
    pub fn begin(&mut self, fault: Fault) -> Result<()> {
        self.faults.push(fault);
        let scene = &mut self.scene;
        match fault {
            Fault::Cut(node) => scene.cut(node),
            Fault::CutManagement(node) => scene.cluster().set_link(node, LinkState::Down),
            Fault::OneWay(node, direction) => scene.cluster().drop_packets(node, direction),
            Fault::Split(part) => scene.cluster().split(part.nodes()),
            Fault::Late(node, direction, time) => {
                let controller = scene.setup().controller;
                let late = Late::start(scene.cluster(), controller, node, direction, time)?;
                self.late = Some(late);
                Ok(())
            }
            Fault::Agent(node, Stop::Killed) => scene.take_agent(node).map(drop),
            Fault::Agent(node, Stop::Frozen) => scene.signal_agent(node, Signal::SIGSTOP),
            Fault::Controller(Stop::Killed) => scene.take_controller().map(drop),
            Fault::Controller(Stop::Frozen) => scene.signal_controller(Signal::SIGSTOP),
            Fault::Drain(node) => scene.drain(node),
            Fault::Reboot(node) => {
                scene.cut(node)?;
                drop(scene.take_agent(node)?);
                wipe(scene, node)
            }
        }
    }

    /// It is mended.
    ///
    /// # Errors
    /// It cannot be.
    pub fn end(&mut self, fault: Fault) -> Result<()> {
        self.faults.retain(|wrong| *wrong != fault);
        let scene = &mut self.scene;
        match fault {
            Fault::Cut(node) => scene.set_links(node, LinkState::Up),
            Fault::CutManagement(node) => scene.cluster().set_link(node, LinkState::Up),
            Fault::OneWay(node, _) => scene.cluster().pass_packets(node),
            Fault::Split(part) => scene.cluster().join(part.nodes()),
            Fault::Late(..) => match self.late.take() {
                Some(late) => late.end(scene.cluster()),
                None => Ok(()),
            },
            Fault::Agent(node, Stop::Killed) => scene.spawn_agent(node),
            Fault::Agent(node, Stop::Frozen) => scene.signal_agent(node, Signal::SIGCONT),
            Fault::Controller(Stop::Killed) => scene.start_controller(),
            Fault::Controller(Stop::Frozen) => scene.signal_controller(Signal::SIGCONT),
            Fault::Drain(node) => scene.undrain(node),
            Fault::Reboot(node) => {
                scene.set_links(node, LinkState::Up)?;
                scene.spawn_agent(node)
            }
        }
    }

    /// Mends everything, and waits until all nodes are AVAILABLE and the egress IPs announced.
    ///
    /// # Errors
    /// It does not come to that.
    pub fn mend(&mut self) -> Result<()> {
        while let Some(fault) = self.faults.last().copied() {
            self.end(fault)?;
        }
        let mut indices = self.scene.indices();
        indices.try_for_each(|node| self.scene.await_state(node, State::Available))?;
        self.scene.await_announced()
    }
}

/// Takes all that is ours out of a node's kernel.
fn wipe(scene: &Scene, index: u8) -> Result<()> {
    let node = scene.node(index);
    let program = bin_dir()?.join("pulsepath-agent");
    let mut detach = node.netns().command(program);
    detach.args(["detach", "--pin-dir"]).arg(node.pin_dir());
    run(&mut detach).map(drop)
}
