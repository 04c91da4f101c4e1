//! What a scene looks like from outside: questions to its controller, and waiting for answers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use controller::api::{EgressIp, GatewayList, Lease, Node, ReportState, State};

use super::Scene;
use crate::egress::EGRESS_IP;
use crate::{metrics, within};

/// Far longer than anything takes that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl Scene {
    /// Gateways, candidates and egress IPs, as the controller tells of them.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn gateways(&self) -> Result<GatewayList> {
        let body = self.controller_node().controller_http("/v1/gateways")?.body;
        serde_json::from_str(&body).context(body)
    }

    /// All egress IPs.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn addresses(&self) -> Result<Vec<EgressIp>> {
        let gateways = self.gateways()?.gateways;
        let addresses = gateways.into_iter().flat_map(|gateway| gateway.addresses);
        Ok(addresses.collect())
    }

    /// The first egress IP.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn address(&self) -> Result<EgressIp> {
        let first = self.addresses()?.into_iter().next();
        first.context("there is no egress IP")
    }

    /// The number of the node that owns the first egress IP.
    ///
    /// # Errors
    /// The controller does not answer, or nobody owns it.
    pub fn owner(&self) -> Result<u8> {
        number(&self.address()?.owner.context("nobody owns it")?)
    }

    /// The numbers of the nodes whose votes extend the lease of candidate `index`.
    ///
    /// # Errors
    /// The controller does not answer, or it is no candidate.
    pub fn witnesses_of(&self, index: u8) -> Result<Vec<u8>> {
        let gateways = self.gateways()?.gateways;
        let mut candidates = gateways.iter().flat_map(|gateway| &gateway.candidates);
        let name = format!("n{index}");
        let lease = candidates.find(|it| it.node == name);
        let lease = lease.and_then(|it| it.lease.as_ref());
        let names = &lease.context("it has no lease")?.witnesses;
        names.iter().map(|name| number(name)).collect()
    }

    /// How many of the probes' answers the controller has found to be of this kind.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn replies(&self, kind: &str) -> Result<u64> {
        let metrics = self.controller_node().controller_http("/metrics")?.body;
        metrics::sum(&metrics, "probe_replies_total", &format!("\"{kind}\""))
    }

    /// How often an egress IP has got a new owner, or lost one, by the log of all controllers so far.
    ///
    /// # Errors
    /// There is no log yet.
    pub fn moves(&self) -> Result<usize> {
        let node = self.controller_node().name();
        let log = format!("{node}-pulsepath-controller.log");
        let log = std::fs::read_to_string(self.cluster().files().join(log))?;
        Ok(log.matches("egress IP assigned").count())
    }

    /// Waits until node `owner` owns the first egress IP and says that it has announced it.
    ///
    /// # Errors
    /// It does not within [`PATIENCE`].
    pub fn await_owner(&self, owner: u8) -> Result<()> {
        let name = format!("n{owner}");
        until(&format!("{name} owns the egress IP"), || {
            let address = self.address()?;
            let is_there = address.owner.as_ref() == Some(&name) && is_announced(&address);
            ensure!(is_there, "{address:?}");
            Ok(())
        })
    }

    /// Waits until all egress IPs are announced by their owners.
    ///
    /// # Errors
    /// They are not within [`PATIENCE`].
    pub fn await_announced(&self) -> Result<()> {
        until("all egress IPs are announced", || {
            let addresses = self.addresses()?;
            ensure!(addresses.iter().all(is_announced), "{addresses:?}");
            Ok(())
        })
    }

    /// Waits until every candidate has confirmed its witnesses, and all of those have answered.
    ///
    /// # Errors
    /// They have not within [`PATIENCE`].
    pub fn await_witnesses(&self) -> Result<()> {
        until("every candidate has witnesses", || {
            let list = self.gateways()?;
            let candidates = list.gateways.iter().flat_map(|gateway| &gateway.candidates);
            let leases = candidates.map(|candidate| candidate.lease.as_ref());
            let has_witnesses = |lease: &Lease| lease.confirmed && !lease.witnesses.is_empty();
            let all = leases.into_iter().all(|it| it.is_some_and(has_witnesses));
            ensure!(all, "{list:?}");
            Ok(())
        })
    }

    /// Waits until the first egress IP is held back for a reason that contains these words.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`].
    pub fn await_held(&self, words: &str) -> Result<()> {
        until(&format!("the egress IP is held back: {words}"), || {
            let address = self.address()?;
            let is_held = address.held.as_ref().is_some_and(|it| it.contains(words));
            ensure!(is_held, "{address:?}");
            Ok(())
        })
    }

    /// Waits until all egress IPs are announced by their owners, and none is on its way to another.
    ///
    /// # Errors
    /// They are not within [`PATIENCE`].
    pub fn await_settled(&self) -> Result<()> {
        until("all egress IPs are announced, and stay", || {
            let addresses = self.addresses()?;
            let is_settled = |it: &EgressIp| is_announced(it) && it.phase.is_none();
            ensure!(addresses.iter().all(is_settled), "{addresses:?}");
            Ok(())
        })
    }

    /// Waits until so many of the egress IPs have an owner.
    ///
    /// # Errors
    /// They have not within [`PATIENCE`].
    pub fn await_assigned(&self, count: usize) -> Result<()> {
        until(&format!("{count} egress IPs have an owner"), || {
            let addresses = self.addresses()?;
            let assigned = addresses.iter().filter(|it| it.owner.is_some()).count();
            ensure!(assigned == count, "{addresses:?}");
            Ok(())
        })
    }

    /// Waits until the controller has as many candidates as `candidates`.
    pub(super) fn await_candidates(&self, candidates: &[u8]) -> Result<()> {
        until("the controller knows the candidates", || {
            let gateways = self.gateways()?.gateways;
            let selected = gateways.iter().flat_map(|gateway| &gateway.candidates);
            ensure!(selected.count() == candidates.len(), "{gateways:?}");
            Ok(())
        })
    }

    /// Waits until the controller shows these egress IPs, and no others.
    pub(super) fn await_addresses(&self, expected: &[IpAddr]) -> Result<()> {
        until("the controller knows the egress IPs", || {
            let addresses = self.addresses()?;
            let shown: BTreeSet<&IpAddr> = addresses.iter().map(|it| &it.address).collect();
            ensure!(shown == expected.iter().collect(), "{addresses:?}");
            Ok(())
        })
    }

    /// Waits until node `index` may get addresses.
    ///
    /// # Errors
    /// It may not within [`PATIENCE`].
    pub fn await_eligible(&self, index: u8) -> Result<()> {
        let name = format!("n{index}");
        until(&format!("{name} may get addresses"), || {
            let gateways = self.gateways()?.gateways;
            let mut candidates = gateways.iter().flat_map(|gateway| &gateway.candidates);
            let is_eligible = candidates.any(|it| it.node == name && it.barred.is_none());
            ensure!(is_eligible, "{gateways:?}");
            Ok(())
        })
    }

    /// Whether node `index` itself has `address` on its external interface.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn holds(&self, index: u8, address: &str) -> Result<bool> {
        let netns = self.node(index).netns();
        let shown = netns.ip("-o address show dev ext0")?;
        Ok(shown.contains(&format!(" {address}/")))
    }

    /// Waits until node `index` does not have the client's egress IP any more.
    ///
    /// # Errors
    /// It still has it after [`PATIENCE`].
    pub fn await_released(&self, index: u8) -> Result<()> {
        until(&format!("n{index} has released the egress IP"), || {
            ensure!(!self.holds(index, &EGRESS_IP.to_string())?, "not yet");
            Ok(())
        })
    }

    /// Waits until node `index` is in `state`.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`].
    pub fn await_state(&self, index: u8, state: State) -> Result<()> {
        until(&format!("n{index} is {state:?}"), || {
            let path = format!("/v1/nodes/n{index}");
            let body = self.controller_node().controller_http(&path)?.body;
            let node: Node = serde_json::from_str(&body).context(body)?;
            ensure!(node.state == state, "{node:?}");
            Ok(())
        })
    }
}

/// Of the node that is called so.
fn number(name: &str) -> Result<u8> {
    let number = name.trim_start_matches('n').parse();
    number.with_context(|| format!("{name} is none of ours"))
}

/// Waits for `condition`; `what` says which in the error.
fn until<T: Debug>(what: &str, condition: impl FnMut() -> Result<T>) -> Result<T> {
    within(PATIENCE, condition)
        .map_err(|reason| anyhow!("not within {PATIENCE:?}: {what}: {reason}"))
}

fn is_announced(address: &EgressIp) -> bool {
    let report = address.report.as_ref();
    address.owner.is_some() && report.is_some_and(|it| it.state == ReportState::Announced)
}
