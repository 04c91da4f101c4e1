//! Whom to have as witnesses: an odd number for each node, over all zones, and as few changes as can
//! be.

use std::collections::HashMap;

/// With fewer nodes nobody could say who is cut off from whom.
pub(in crate::failover) const FEWEST_NODES: usize = 3;

/// What is known of a node that is or may become a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may become one.
    Fit,
    /// It does not become one, but if it is one it stays.
    Doubtful,
    /// It is replaced.
    Gone,
}

/// A node that is or may become a witness.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) node: &'a str,
    /// Where it is; unknown places are all one zone.
    pub(super) zone: &'a str,
    pub(super) standing: Standing,
}

/// Whom to have next instead of `current`, of `candidates`, which are all nodes; at most one change
/// at a time. Each node's set is to have `wanted` witnesses, or fewer in a small cluster: there is
/// one more, see [`Roster`](super::Roster).
pub(super) fn choose<'a>(
    current: &[&'a str],
    candidates: &[Candidate<'a>],
    wanted: usize,
) -> Vec<&'a str> {
    if candidates.len() < FEWEST_NODES {
        return Vec::new();
    }
    let choice = Choice {
        candidates: candidates.iter().map(|it| (it.node, *it)).collect(),
    };
    let mut next = current.to_vec();
    if next.len() > full_size(wanted, candidates.len()) {
        choice.shrink(&mut next);
        return next;
    }
    let gone = next.iter().position(|node| choice.is_gone(node));
    if let Some(gone) = gone
        && let Some(successor) = choice.best(&next, Some(gone))
    {
        next[gone] = successor;
        return next;
    }
    let fit = choice.fit(current).count();
    choice.grow(&mut next, size(wanted, current.len() + fit));
    next
}

/// How many witnesses there are to be of so many nodes, where a set shall have `wanted`.
pub(super) const fn full_size(wanted: usize, nodes: usize) -> usize {
    match nodes < FEWEST_NODES {
        true => 0,
        false => size(wanted, nodes),
    }
}

/// How many there can be if so many are fit.
const fn size(wanted: usize, nodes: usize) -> usize {
    let others = nodes.saturating_sub(1);
    let set = if others < wanted { others } else { wanted };
    // The largest odd number, and the one who stands in.
    match set {
        0 => 0,
        _ => (set - 1) / 2 * 2 + 2,
    }
}

struct Choice<'a> {
    candidates: HashMap<&'a str, Candidate<'a>>,
}

impl<'a> Choice<'a> {
    fn is_gone(&self, node: &str) -> bool {
        let candidate = self.candidates.get(node);
        candidate.is_none_or(|candidate| candidate.standing == Standing::Gone)
    }

    /// Two leave, if that can be those that are gone.
    fn shrink(&self, next: &mut Vec<&'a str>) {
        for _ in 0..2 {
            let gone = next.iter().rposition(|node| self.is_gone(node));
            // The last one stands in for others.
            let leaving = gone.unwrap_or(next.len().saturating_sub(2));
            if leaving < next.len() {
                next.remove(leaving);
            }
        }
    }

    /// Two come, or as many as are needed where there are none. The last one stays the last one, so
    /// that each set loses nobody.
    fn grow(&self, next: &mut Vec<&'a str>, size: usize) {
        let (until, last) = match next.len() {
            0 => (size, 0),
            count => (size.min(count + 2), 1),
        };
        while next.len() < until
            && let Some(best) = self.best(next, None)
        {
            next.insert(next.len() - last, best);
        }
    }

    fn fit<'b>(&'b self, but: &'b [&'a str]) -> impl Iterator<Item = &'b Candidate<'a>> {
        let fit = |it: &&Candidate<'a>| it.standing == Standing::Fit;
        let others = move |it: &&Candidate<'a>| !but.contains(&it.node);
        self.candidates.values().filter(fit).filter(others)
    }

    /// Who is best beside `members`, instead of the one at `leaving`: where there are fewest yet.
    fn best(&self, members: &[&'a str], leaving: Option<usize>) -> Option<&'a str> {
        let staying = members.iter().enumerate();
        let staying = staying.filter(|(index, _)| Some(*index) != leaving);
        let mut crowd: HashMap<&str, usize> = HashMap::new();
        for candidate in staying.filter_map(|(_, node)| self.candidates.get(node)) {
            *crowd.entry(candidate.zone).or_default() += 1;
        }
        let rank = |it: &&Candidate<'a>| (crowd.get(it.zone).copied().unwrap_or(0), it.node);
        self.fit(members).min_by_key(rank).map(|it| it.node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes<'a>(names: &[&'a str]) -> Vec<Candidate<'a>> {
        let candidate = |node: &&'a str| Candidate {
            node,
            zone: "",
            standing: Standing::Fit,
        };
        names.iter().map(candidate).collect()
    }

    const SEVEN: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

    #[test]
    fn there_is_one_more_than_the_odd_number_that_a_set_has() {
        let sizes: Vec<usize> = (0..8).map(|count| choose_of(count).len()).collect();
        assert_eq!(sizes, [0, 0, 0, 2, 4, 4, 6, 6]);
    }

    fn choose_of(count: usize) -> Vec<&'static str> {
        choose(&[], &nodes(&SEVEN[..count]), 5)
    }

    #[test]
    fn as_long_as_all_is_well_nothing_changes() {
        let chosen = choose_of(7);
        assert_eq!(choose(&chosen, &nodes(&SEVEN), 5), chosen);
    }

    #[test]
    fn zones_are_filled_evenly() {
        let zones = ["x", "x", "x", "x", "y", "y", "z"];
        let mut candidates = nodes(&SEVEN);
        for (candidate, zone) in candidates.iter_mut().zip(zones) {
            candidate.zone = zone;
        }
        let mut chosen = choose(&[], &candidates, 3);
        chosen.sort_unstable();
        assert_eq!(chosen, ["a", "b", "e", "g"]);
    }

    #[test]
    fn who_is_gone_is_replaced_in_its_slot_by_one_of_its_zone_if_that_is_the_emptiest() {
        let mut candidates = nodes(&SEVEN);
        for (candidate, zone) in candidates
            .iter_mut()
            .zip(["x", "y", "z", "x", "y", "z", "x"])
        {
            candidate.zone = zone;
        }
        let chosen = ["a", "b", "c", "d"];
        candidates[1].standing = Standing::Gone;
        assert_eq!(choose(&chosen, &candidates, 3), ["a", "e", "c", "d"]);
    }

    #[test]
    fn who_is_deleted_is_replaced_and_who_is_doubtful_is_not() {
        let mut candidates = nodes(&SEVEN);
        candidates.remove(0);
        candidates[0].standing = Standing::Doubtful;
        let chosen = ["a", "b", "c", "d"];
        assert_eq!(choose(&chosen, &candidates, 3), ["e", "b", "c", "d"]);
    }

    #[test]
    fn without_anyone_better_who_is_gone_stays() {
        let mut candidates = nodes(&SEVEN[..4]);
        candidates[1].standing = Standing::Gone;
        let chosen = ["a", "b", "c", "d"];
        assert_eq!(choose(&chosen, &candidates, 3), chosen);
    }

    #[test]
    fn one_is_replaced_at_a_time() {
        let mut candidates = nodes(&SEVEN);
        candidates[0].standing = Standing::Gone;
        candidates[1].standing = Standing::Gone;
        let chosen = ["a", "b", "c", "d"];
        assert_eq!(choose(&chosen, &candidates, 3), ["e", "b", "c", "d"]);
    }

    #[test]
    fn a_cluster_that_grows_gets_two_more_before_the_last_one() {
        let chosen = choose(&["a", "b"], &nodes(&SEVEN), 5);
        assert_eq!(chosen, ["a", "c", "d", "b"]);
    }

    #[test]
    fn a_cluster_that_shrinks_loses_those_that_are_gone() {
        let chosen = ["a", "b", "c", "d"];
        assert_eq!(choose(&chosen, &nodes(&["b", "c", "d"]), 3), ["b", "d"]);
        assert_eq!(choose(&["a", "b"], &nodes(&["a", "b"]), 3), [""; 0]);
    }

    proptest! {
        /// Wherever it starts, and whoever is gone, it comes to rest: an even number of witnesses,
        /// nobody twice, and nobody who is gone where somebody else is fit.
        #[test]
        fn it_comes_to_rest(
            standings in prop::collection::vec(
                prop::sample::select(vec![Standing::Fit, Standing::Doubtful, Standing::Gone]), 7,
            ),
            start in Just(SEVEN.to_vec()).prop_shuffle(),
            pairs in 0_usize..4,
            wanted in 1_usize..8,
        ) {
            let mut candidates = nodes(&SEVEN);
            for (candidate, standing) in candidates.iter_mut().zip(standings) {
                candidate.standing = standing;
            }
            let mut current = start[..2 * pairs].to_vec();
            for _ in 0..20 {
                let next = choose(&current, &candidates, wanted);
                let kept = current.iter().filter(|node| next.contains(node)).count();
                prop_assert!(current.is_empty() || kept + 2 >= current.len());
                current = next;
            }
            prop_assert_eq!(&choose(&current, &candidates, wanted), &current);
            prop_assert_eq!(current.len() % 2, 0);
            prop_assert!(current.len() <= wanted + 1);
            let of = |standing| candidates.iter().filter(move |it| it.standing == standing);
            let member = |it: &Candidate<'_>| current.contains(&it.node);
            let spoilt = of(Standing::Gone).any(member);
            prop_assert!(!spoilt || of(Standing::Fit).all(member));
            let mut unique = current.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), current.len());
        }
    }
}
