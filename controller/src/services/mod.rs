//! Groups of nodes of which one is picked, and published: for whatever shall run on exactly one node.
//!
//! [`pick`] decides and knows no clock; [`run`] feeds it, as a consumer like any other. Whoever runs
//! it keeps the picks over a restart, so that a node that was picked stays.

mod pick;

use std::collections::{BTreeMap, BTreeSet};
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

/// Picks for these groups, going on from what is picked, until nobody can name other groups any more.
pub async fn run(
    mut groups: watch::Receiver<Vec<Group>>,
    board: Arc<Board>,
    consumers: Consumers,
    picks: watch::Sender<BTreeMap<String, Pick>>,
) {
    let consumer = consumers.register("services");
    loop {
        let present = groups.borrow_and_update().clone();
        consumer.set_interest(match present.is_empty() {
            true => Interest::Nodes(BTreeSet::new()),
            false => Interest::All,
        });
        let nodes = board.nodes();
        picks.send_if_modified(|picks| update(picks, &present, &nodes, SystemTime::now()));
        tokio::select! {
            changed = groups.changed() => if changed.is_err() {
                return;
            },
            () = consumer.changed() => {}
            () = tokio::time::sleep(LOOK), if !present.is_empty() => {}
        }
    }
}

fn update(
    picks: &mut BTreeMap<String, Pick>,
    groups: &[Group],
    nodes: &[crate::monitor::NodeView],
    now: SystemTime,
) -> bool {
    let known = picks.len();
    picks.retain(|name, _| groups.iter().any(|group| group.name == *name));
    let mut changed = picks.len() != known;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        Group {
            name: name.to_owned(),
            selector: BTreeMap::new(),
        }
    }

    #[test]
    fn groups_that_are_gone_are_not_published_any_more() {
        let mut picks = BTreeMap::new();
        let now = SystemTime::UNIX_EPOCH;
        assert!(update(&mut picks, &[group("dns"), group("mail")], &[], now));
        assert!(update(&mut picks, &[group("mail")], &[], now));
        assert!(!update(&mut picks, &[group("mail")], &[], now));
        assert_eq!(picks.keys().collect::<Vec<_>>(), ["mail"]);
    }

    #[tokio::test]
    async fn other_groups_are_picked_for_at_once() {
        let board = Arc::new(Board::default());
        let consumers = Consumers::new(board.clone(), || {});
        let (groups, named) = watch::channel(Vec::new());
        let (sender, mut picks) = watch::channel(BTreeMap::new());
        let running = tokio::spawn(run(named, board, consumers, sender));
        groups.send_replace(vec![group("dns")]);
        let picked = picks.wait_for(|picks| picks.contains_key("dns")).await;
        assert_eq!(picked.unwrap()["dns"].node, None);
        drop(groups);
        running.await.unwrap();
    }
}
