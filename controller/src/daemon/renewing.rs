//! Has the prober extend leases, and hears when it does so.

use std::collections::BTreeMap;

use probe_user::session::{Renewal, Right};
use tokio::sync::mpsc;

use crate::failover::Renewals;
use crate::monitor::driver::{Control, Echoed};
use crate::tenure::Tenure;

/// Tells the prober whose leases to extend.
pub(crate) struct Renewing {
    control: Control,
    sender: mpsc::UnboundedSender<Echoed>,
    echoed: mpsc::UnboundedReceiver<Echoed>,
}

impl Renewing {
    pub(crate) fn new(control: Control) -> Self {
        let (sender, echoed) = mpsc::unbounded_channel();
        Self {
            control,
            sender,
            echoed,
        }
    }

    /// From now on, and until `tenure` ends, these leases are extended, and no others.
    pub(crate) fn renew(&self, renewals: &Renewals, tenure: Tenure) {
        let renewal = |floor| Renewal {
            right: Right::Controller,
            floor,
            time: renewals.lease,
            since: renewals.since,
        };
        let floors = renewals.floors.iter();
        let renewals: BTreeMap<_, _> = floors
            .map(|(node, floor)| (node.to_string(), renewal(*floor)))
            .collect();
        self.control.renew(renewals, tenure, self.sender.clone());
    }

    /// From now on no lease is extended. What was extended before is not asked for.
    pub(crate) fn stop(&mut self) {
        (self.sender, self.echoed) = mpsc::unbounded_channel();
        let (nobody, _) = mpsc::unbounded_channel();
        self.control
            .renew(BTreeMap::new(), Tenure::endless(), nobody);
    }

    /// Once for each time that the prober was told: what it had extended until then.
    pub(crate) async fn renewed(&mut self) -> Echoed {
        match self.echoed.recv().await {
            Some(echoed) => echoed,
            // It cannot be: a sender is at hand.
            None => std::future::pending().await,
        }
    }
}
