//! Has the prober extend leases, and hears when it does so.

use std::collections::BTreeMap;

use probe_user::session::{Renewal, Right};
use tokio::sync::mpsc;

use crate::failover::Renewals;
use crate::monitor::driver::{Control, Echoed};

/// Tells the prober whose leases to extend.
pub(super) struct Renewing {
    control: Control,
    sender: mpsc::UnboundedSender<Echoed>,
    echoed: mpsc::UnboundedReceiver<Echoed>,
}

impl Renewing {
    pub(super) fn new(control: Control) -> Self {
        let (sender, echoed) = mpsc::unbounded_channel();
        Self {
            control,
            sender,
            echoed,
        }
    }

    /// From now on these leases are extended, and no others.
    pub(super) fn renew(&self, renewals: &Renewals) {
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
        self.control.renew(renewals, self.sender.clone());
    }

    /// Once for each time that the prober was told: what it had extended until then.
    pub(super) async fn renewed(&mut self) -> Echoed {
        match self.echoed.recv().await {
            Some(echoed) => echoed,
            // It cannot be: a sender is at hand.
            None => std::future::pending().await,
        }
    }
}
