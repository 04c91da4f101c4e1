//! A consumer that has to be told which nodes changed, not only that some did.

use std::collections::BTreeSet;

use super::{Consumer, Consumers, Interest};

/// Nodes that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Their names.
    pub nodes: BTreeSet<String>,
    /// Every change up to this version is among them or has been before.
    pub version: u64,
}

/// A consumer that is told names. Those that come while it does not ask are put together, so that it
/// costs no more than the names of its nodes; dropping it deregisters.
#[derive(Debug)]
pub struct Watcher {
    consumer: Consumer,
}

impl Watcher {
    pub(super) fn new(consumers: &Consumers, name: &str, interest: Interest) -> Self {
        let consumer = consumers.register(name);
        // From here on changes are noted; what there was before comes first.
        consumer.shared.note_names(consumer.id);
        let nodes = match &interest {
            Interest::Nodes(names) => names.clone(),
            Interest::All => consumers.shared.board.names(),
        };
        consumer.set_interest(interest);
        consumer.shared.add_names(consumer.id, nodes);
        consumer.changed.notify_one();
        Self { consumer }
    }

    /// Waits for changes; the first ones are all nodes of interest.
    pub async fn changes(&self) -> Changes {
        loop {
            self.consumer.changed().await;
            let changes = self.consumer.shared.take_names(self.consumer.id);
            if !changes.nodes.is_empty() {
                return changes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;

    fn consumers() -> Consumers {
        Consumers::new(Arc::default(), || {})
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn watch(consumers: &Consumers, nodes: &[&str]) -> Watcher {
        consumers.watch("test", Interest::Nodes(names(nodes)))
    }

    fn next(watcher: &Watcher) -> Option<Changes> {
        watcher.changes().now_or_never()
    }

    #[test]
    fn all_nodes_of_interest_come_first() {
        let consumers = consumers();
        let watcher = watch(&consumers, &["n1", "n2"]);
        assert_eq!(next(&watcher).unwrap().nodes, names(&["n1", "n2"]));
        assert_eq!(next(&watcher), None);
    }

    #[test]
    fn changes_that_come_meanwhile_are_put_together() {
        let consumers = consumers();
        let watcher = watch(&consumers, &["n1", "n2", "n3"]);
        next(&watcher);
        for _ in 0..1000 {
            consumers.tell("n1");
            consumers.tell("n3");
        }
        let changes = next(&watcher).unwrap();
        assert_eq!(changes.nodes, names(&["n1", "n3"]));
        assert_eq!(changes.version, 2000);
        assert_eq!(next(&watcher), None);
    }

    #[test]
    fn a_change_after_the_last_answer_is_not_lost() {
        let consumers = consumers();
        let watcher = watch(&consumers, &["n1"]);
        next(&watcher);
        consumers.tell("n1");
        next(&watcher);
        consumers.tell("n1");
        assert_eq!(next(&watcher).unwrap().version, 2);
    }

    #[test]
    fn a_watcher_is_not_told_of_other_nodes() {
        let consumers = consumers();
        let watcher = watch(&consumers, &["n1"]);
        next(&watcher);
        consumers.tell("n2");
        assert_eq!(next(&watcher), None);
    }

    #[test]
    fn interest_ends_with_the_watcher() {
        let consumers = consumers();
        let watcher = watch(&consumers, &["n1"]);
        assert!(consumers.want("n1"));
        drop(watcher);
        assert!(!consumers.want("n1"));
    }
}
