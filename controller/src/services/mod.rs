//! Groups of nodes of which one is picked, and published: for whatever shall run on exactly one node.
//!
//! [`pick`] decides and knows no clock; [`run`] feeds it, as a consumer like any other. A pick is
//! kept in memory only: after a restart of the controller the same nodes in the same states give
//! the same pick, unless one was kept from before a failure.

mod pick;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

pub use pick::{Group, Member, pick};

use crate::consumers::{Consumers, Interest};
use crate::monitor::Board;

/// Labels may change without a change of any state.
const LOOK: Duration = Duration::from_secs(1);

/// Who is picked for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The node; `None`: no node of the group is AVAILABLE.
    pub node: Option<String>,
    /// When that was decided.
    pub since: SystemTime,
}

/// Who is picked, by service.
pub type Picks = watch::Receiver<BTreeMap<String, Pick>>;

/// Picks for ever.
pub async fn run(
    groups: Vec<Group>,
    board: Arc<Board>,
    consumers: Consumers,
    picks: watch::Sender<BTreeMap<String, Pick>>,
) {
    let consumer = consumers.register("services");
    consumer.set_interest(Interest::All);
    loop {
        let nodes = board.nodes();
        picks.send_if_modified(|picks| update(picks, &groups, &nodes, SystemTime::now()));
        // However it ends, the present states are asked for.
        let _ = tokio::time::timeout(LOOK, consumer.changed()).await;
    }
}

fn update(
    picks: &mut BTreeMap<String, Pick>,
    groups: &[Group],
    nodes: &[crate::monitor::NodeView],
    now: SystemTime,
) -> bool {
    let mut changed = false;
    for group in groups {
        let before = picks.get(&group.name);
        let members = nodes.iter().map(|view| Member {
            name: &view.name,
            labels: &view.labels,
            state: view.state,
        });
        let current = before.and_then(|pick| pick.node.as_deref());
        let node = pick(group, current, members).map(str::to_owned);
        if before.is_none_or(|before| before.node != node) {
            tracing::info!(service = group.name, node, "picked");
            picks.insert(group.name.clone(), Pick { node, since: now });
            changed = true;
        }
    }
    changed
}
