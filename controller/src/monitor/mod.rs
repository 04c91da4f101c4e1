//! Probes nodes and keeps their states: the prober's findings go to the health core, and what
//! follows from them to the [`Board`], to the consumers and, as [`Notice`]s, to whoever reports.
//! About nodes that nobody is known to hear it has others [asked](Ask), who may
//! [testify](Testimony).
//!
//! [`Monitor`] has no clock, socket or thread; [`driver`] runs one over UDP.

mod board;
mod core;
pub mod driver;
mod hearsay;
mod keys;
mod leases;
mod nodes;
mod panel;
mod view;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use probe_user::keys::NodeKeys;
use probe_user::session::TargetError;

pub use self::board::{Board, Sighting};
pub use self::core::{Monitor, MonitorSettings, Outlets};
pub use self::hearsay::{Ask, Sign, Testimony};
pub use self::keys::KeyView;
pub use self::view::{AddressView, NodeView, RoundTrips};
use crate::api;
pub use crate::clock::Reading;
use crate::health::{Reason, State};

/// A node to monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, unique.
    pub name: String,
    /// Its management addresses: unicast, and no other node's.
    pub addresses: Vec<IpAddr>,
    /// For people and selectors.
    pub labels: BTreeMap<String, String>,
    /// Its keys.
    pub keys: NodeKeys,
    /// What is wrong with how it is configured, if anything.
    pub problem: Option<String>,
}

/// What an earlier controller recorded of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its state.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub since: SystemTime,
    /// Its incarnation; `None`: it never answered.
    pub incarnation: Option<u64>,
}

/// Something to report.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A node's state changed.
    Transition(api::Transition),
    /// A node has been UNAVAILABLE for long enough to tell people.
    Announced {
        /// Its name.
        node: String,
        /// For how long.
        lasted: Duration,
    },
    /// The controller does not hear a node, but others do: it keeps its state.
    PathDown {
        /// Its name.
        node: String,
        /// For how long the controller has not heard it.
        silence: Duration,
        /// Who does.
        by: Vec<String>,
    },
    /// Nobody hears a node, but others receive packets from its tunnels: it keeps its state for a
    /// while.
    OnlyTunnels {
        /// Its name.
        node: String,
        /// For how long nobody has heard it.
        silence: Duration,
        /// Who received the last packet.
        by: String,
        /// How much longer it keeps its state at most.
        left: Duration,
    },
    /// The controller hears a node again that only others heard.
    PathBack {
        /// Its name.
        node: String,
        /// How long the controller had not heard it.
        silence: Duration,
    },
    /// A node lost its kernel state, most likely in a reboot.
    Reincarnated {
        /// Its name.
        node: String,
        /// Its incarnation before.
        from: u64,
        /// Its incarnation now.
        to: u64,
    },
    /// A node cannot be probed at the addresses that it has.
    NotProbed {
        /// Its name.
        node: String,
        /// Why.
        error: TargetError,
    },
    /// Every node that was there at the start has answered or is decided otherwise. Comes once.
    Settled,
}
