//! What a watch has told of the objects of one kind.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// Objects by name, as far as they matter.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    known: BTreeMap<String, T>,
    /// Those of a list that is under way.
    listing: BTreeMap<String, T>,
    /// Whether it was ever complete.
    complete: bool,
}

impl<T> Default for Mirror<T> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            listing: BTreeMap::new(),
            complete: false,
        }
    }
}

impl<T: PartialEq> Mirror<T> {
    /// The objects that there are.
    pub(super) fn objects(&self) -> &BTreeMap<String, T> {
        &self.known
    }

    /// Whether all that there were at some time are known. What was known stays known while a list is
    /// made anew.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes in what the watch says; whether anything that matters is another thing now.
    pub(super) fn handle<K: ResourceExt>(
        &mut self,
        event: Event<K>,
        read: impl FnOnce(K) -> T,
    ) -> bool {
        match event {
            Event::Init => {
                self.listing.clear();
                false
            }
            Event::InitApply(object) => {
                self.listing.insert(object.name_any(), read(object));
                false
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                let first = !std::mem::replace(&mut self.complete, true);
                let before = std::mem::replace(&mut self.known, listed);
                first || before != self.known
            }
            Event::Apply(object) => {
                let name = object.name_any();
                let object = read(object);
                let is_new = self.known.get(&name) != Some(&object);
                self.known.insert(name, object);
                is_new
            }
            Event::Delete(object) => self.known.remove(&object.name_any()).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(name: &str, egress: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.labels_mut()
            .insert("egress".to_owned(), egress.to_owned());
        node
    }

    fn handle(mirror: &mut Mirror<String>, event: Event<Node>) -> bool {
        mirror.handle(event, |node| node.labels()["egress"].clone())
    }

    fn list(mirror: &mut Mirror<String>, nodes: &[Node]) -> bool {
        handle(mirror, Event::Init);
        for node in nodes {
            assert!(!handle(mirror, Event::InitApply(node.clone())));
        }
        handle(mirror, Event::InitDone)
    }

    #[test]
    fn it_is_complete_once_everything_was_listed_be_it_nothing() {
        let mut mirror = Mirror::default();
        assert!(!mirror.is_complete());
        assert!(list(&mut mirror, &[]));
        assert!(mirror.is_complete());
    }

    #[test]
    fn what_does_not_matter_is_no_change() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[node("a", "yes")]);
        assert!(!handle(&mut mirror, Event::Apply(node("a", "yes"))));
        assert!(handle(&mut mirror, Event::Apply(node("a", "no"))));
        assert!(!list(&mut mirror, &[node("a", "no")]));
    }

    #[test]
    fn what_is_missing_from_another_list_is_gone_once_that_is_complete() {
        let mut mirror = Mirror::default();
        list(&mut mirror, &[node("a", ""), node("b", "")]);
        handle(&mut mirror, Event::Init);
        handle(&mut mirror, Event::InitApply(node("b", "")));
        assert_eq!(mirror.objects().len(), 2);
        assert!(handle(&mut mirror, Event::InitDone));
        assert_eq!(mirror.objects().len(), 1);
        assert!(handle(&mut mirror, Event::Delete(node("b", ""))));
        assert!(mirror.objects().is_empty());
    }
}
