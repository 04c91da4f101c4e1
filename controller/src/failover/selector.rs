//! Which nodes a gateway selects, by their labels.

use std::collections::{BTreeMap, BTreeSet};

/// Selects nodes that meet all of its requirements; without any, every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that a node has.
    pub labels: BTreeMap<String, String>,
    /// What else is required.
    pub requirements: Vec<Requirement>,
}

/// What is required of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What its value may be.
    pub values: Values,
}

/// Values of a label, as Kubernetes' label selectors have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these.
    In(BTreeSet<String>),
    /// None of these; a node without the label is selected, too.
    NotIn(BTreeSet<String>),
    /// Any.
    Exists,
    /// The label must be absent.
    DoesNotExist,
}

impl From<BTreeMap<String, String>> for Selector {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self {
            labels,
            requirements: Vec::new(),
        }
    }
}

impl Selector {
    /// Whether a node with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut equal = self.labels.iter();
        equal.all(|(key, value)| labels.get(key) == Some(value))
            && self.requirements.iter().all(|it| it.is_met_by(labels))
    }
}

impl Requirement {
    fn is_met_by(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.values {
            Values::In(values) => value.is_some_and(|value| values.contains(value)),
            Values::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Values::Exists => value.is_some(),
            Values::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_nodes_labels_must_have_all_that_the_selector_names() {
        assert!(Selector::default().selects(&labels(&[])));
        let selector = Selector::from(labels(&[("egress", "yes"), ("zone", "a")]));
        assert!(selector.selects(&labels(&[("egress", "yes"), ("zone", "a"), ("more", "")])));
        assert!(!selector.selects(&labels(&[("egress", "yes")])));
        assert!(!selector.selects(&labels(&[("egress", "yes"), ("zone", "b")])));
    }

    #[test]
    fn requirements_are_those_of_kubernetes() {
        let some = || BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let cases = [
            (Values::In(some()), [true, false, false]),
            (Values::NotIn(some()), [false, true, true]),
            (Values::Exists, [true, true, false]),
            (Values::DoesNotExist, [false, false, true]),
        ];
        let nodes = [
            labels(&[("zone", "a")]),
            labels(&[("zone", "c")]),
            labels(&[]),
        ];
        for (values, expected) in cases {
            let key = "zone".to_owned();
            let selector = Selector {
                labels: BTreeMap::new(),
                requirements: vec![Requirement { key, values }],
            };
            let selected = nodes.each_ref().map(|labels| selector.selects(labels));
            assert_eq!(selected, expected, "{selector:?}");
        }
    }
}
