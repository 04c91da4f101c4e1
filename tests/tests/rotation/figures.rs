//! What controller and nodes have counted.

use std::collections::BTreeMap;

use pulsepath_tests::egress::Scene;

/// Counters of a whole scene.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Probes that the controller has sent.
    pub(crate) sent: u64,
    /// Answers that the controller could not verify.
    pub(crate) forged: u64,
    refused: BTreeMap<u8, u64>,
    lost: BTreeMap<u8, u64>,
    expiries: BTreeMap<u8, u64>,
}

impl Figures {
    pub(crate) fn read(scene: &Scene) -> Self {
        let controller = scene.controller_node().controller_http("/metrics");
        let controller = controller.unwrap().body;
        let mut figures = Self {
            sent: sum(&controller, "probes_sent_total", ""),
            forged: sum(&controller, "probe_replies_total", "\"forged\""),
            refused: BTreeMap::new(),
            lost: BTreeMap::new(),
            expiries: BTreeMap::new(),
        };
        for index in scene.indices() {
            let label = format!("\"n{index}\"");
            let lost = sum(&controller, "probes_lost_total", &label);
            figures.lost.insert(index, lost);
            // One that is just being restarted has counted all the same, in its kernel.
            let agent = scene.node(index).agent_http("/metrics").unwrap().body;
            let refused = ["\"unknown_key\"", "\"wrong_mac\""]
                .map(|outcome| sum(&agent, "reflector_packets_total", outcome));
            figures.refused.insert(index, refused.iter().sum());
            let expiries = sum(&agent, "lease_expiries_total", "");
            figures.expiries.insert(index, expiries);
        }
        figures
    }

    /// Probes that a node dropped for want of their key, or since the key did not fit.
    pub(crate) fn refused(&self, node: u8) -> u64 {
        self.refused[&node]
    }

    /// Probes of a node that stayed without an answer.
    pub(crate) fn lost(&self, node: u8) -> u64 {
        self.lost[&node]
    }

    /// How often a node's lease ended although somebody held it.
    pub(crate) fn expiries(&self, node: u8) -> u64 {
        self.expiries[&node]
    }
}

#[track_caller]
fn sum(metrics: &str, name: &str, label: &str) -> u64 {
    pulsepath_tests::metrics::sum(metrics, name, label).unwrap()
}
