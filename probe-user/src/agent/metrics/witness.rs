//! Metrics of the node as a witness of others.

use std::fmt;

use super::Metrics;
use crate::witness::Tally;

impl Metrics<'_> {
    pub(super) fn witness(&mut self, tally: &Tally) -> fmt::Result {
        let Tally {
            watched,
            voted_for,
            heard,
            counts,
        } = tally;
        for (name, help, nodes) in [
            (
                "witness_nodes",
                "Nodes that this one probes as a witness",
                watched,
            ),
            (
                "witness_nodes_voted_for",
                "Those among them for whose lease it votes",
                voted_for,
            ),
            (
                "witness_nodes_heard",
                "Those among them that it has heard within the lease time",
                heard,
            ),
        ] {
            self.gauges(name, help, [(vec![], *nodes as f64)])?;
        }
        for (name, help, count) in [
            ("witness_probes", "Probes sent as a witness", counts.probes),
            ("witness_votes", "Votes among them", counts.votes),
            ("witness_replies", "Genuine replies in time", counts.replies),
        ] {
            self.counters(name, help, [(vec![], count)])?;
        }
        Ok(())
    }
}
