//! The reflector's packet logic, from an Ethernet frame to a verdict.
//!
//! [`reflect`] is what every kernel program runs; [`probe::answer`], [`stamp::answer`] and
//! [`sbfd::answer`] work on the UDP payload alone, for the user-space reflector. Nothing here
//! knows a map or a helper: a [`Node`] lends what the agent has configured.

mod datagram;
pub mod probe;
pub mod sbfd;
mod source;
pub mod stamp;
#[cfg(test)]
mod tests;

use crate::frame::Frame;
use crate::lease::Ask;
use crate::maps::{AgentBeat, Assignment, ProbeConfig, ProbeKey, ProberKey, Switch};
use crate::outcome::Outcome;
use datagram::Datagram;

/// Hop limit of replies other than S-BFD's.
const HOP_LIMIT: u8 = 64;

/// What the reflector knows about its node, and its clock.
pub trait Node {
    /// The configuration.
    fn config(&self) -> Option<&ProbeConfig>;
    /// One of the [`crate::maps::KEY_SLOTS`] keys.
    fn key(&self, slot: u32) -> Option<&ProbeKey>;
    /// The agent's sign of life.
    fn beat(&self) -> Option<&AgentBeat>;
    /// What the node has been given.
    fn assignment(&self) -> Option<&Assignment>;
    /// Does what a genuine request asks for if it may, as [`crate::lease::consider`] has it, and says
    /// how the answer is to be counted. `now`: boot clock, ns.
    fn consider(&self, ask: &Ask, now: u64) -> Outcome;
    /// When the node's lease ends or ended: boot clock, ns; 0 = it never had one.
    fn lease_expires(&self) -> u64;
    /// When a packet of a tunnel was last received: boot clock, ns; 0 = never.
    fn tunnel_seen(&self) -> Option<u64>;
    /// Boot clock, ns.
    fn now(&self) -> u64;
    /// Remembers whose authenticated probe has been answered, and whether it asked for the lease
    /// and was honoured.
    fn answered(&self, prober: &ProberKey, now: u64, honoured: bool);
}

/// Decides on a frame, and rewrites it into the reply when the outcome says so.
#[inline(always)]
pub fn reflect(frame: &mut Frame, node: &impl Node) -> Outcome {
    match try_reflect(frame, node) {
        Ok(outcome) | Err(outcome) => outcome,
    }
}

/// Whether a frame is UDP to one of the reflector's ports: worth having in one piece.
#[inline(always)]
pub fn is_for_reflector(frame: &Frame, node: &impl Node) -> bool {
    match (Datagram::read(frame), node.config()) {
        (Ok(Some(datagram)), Some(config)) => service(&datagram, config).is_some(),
        _ => false,
    }
}

enum Service {
    Probe,
    Sbfd,
}

#[inline(always)]
fn service(datagram: &Datagram, config: &ProbeConfig) -> Option<Service> {
    let port = datagram.destination_port;
    if port == config.probe_port {
        Some(Service::Probe)
    } else if matches!(config.sbfd, Switch::On) && port == config.sbfd_port {
        Some(Service::Sbfd)
    } else {
        None
    }
}

#[inline(always)]
fn try_reflect(frame: &mut Frame, node: &impl Node) -> Result<Outcome, Outcome> {
    let Ok(Some(datagram)) = Datagram::read(frame) else {
        return Err(Outcome::Unrelated);
    };
    let config = node.config().ok_or(Outcome::Unconfigured)?;
    if config.probe_port == 0 {
        return Err(Outcome::Unconfigured);
    }
    let service = service(&datagram, config).ok_or(Outcome::Unrelated)?;
    if !config.is_own(&datagram.destination) {
        return Err(Outcome::OtherAddress);
    }
    match service {
        Service::Sbfd => sbfd::reflect(frame, &datagram, config, node),
        Service::Probe if probe::carries_our_tlv(frame, &datagram) => {
            probe::reflect(frame, &datagram, config, node)
        }
        Service::Probe => stamp::reflect(frame, &datagram, config, node),
    }
}
