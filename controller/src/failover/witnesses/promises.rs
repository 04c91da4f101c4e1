//! What witnesses have promised: not to vote for a node any more until it has applied an epoch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Member, Roster};

/// All promises, by node and by the witness's instance.
#[derive(Debug, Default)]
pub(super) struct Promises(BTreeMap<Arc<str>, BTreeMap<u64, Promise>>);

/// A witness votes for the node as of `floor` only, and that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) floor: u64,
    /// When the newest reply came that it echoed in a vote under a lower floor; `None`: in none.
    pub(super) basis: Option<Instant>,
}

/// A set of which no majority has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) struct Lacking {
    /// So many have.
    pub(in crate::failover) promised: usize,
    /// Of so many.
    pub(in crate::failover) of: usize,
}

impl Promises {
    /// The first promise of a floor counts: later ones know of no vote that it did not.
    pub(super) fn note(&mut self, node: &str, instance: u64, promise: Promise) {
        let known = match self.0.get_mut(node) {
            Some(known) => known,
            None => self.0.entry(Arc::from(node)).or_default(),
        };
        let known = known.entry(instance).or_insert(promise);
        if known.floor < promise.floor {
            *known = promise;
        }
    }

    /// As of when no majority of any of `rosters`' sets for `node` votes for it below `floor`: when
    /// the newest reply came on which such a vote rested. `None`: there never was one.
    pub(super) fn basis<'a>(
        &self,
        node: &str,
        floor: u64,
        rosters: impl Iterator<Item = &'a Roster>,
    ) -> Result<Option<Instant>, Lacking> {
        let mut newest = None;
        for roster in rosters {
            newest = self.basis_of(node, floor, roster)?.max(newest);
        }
        Ok(newest)
    }

    fn basis_of(
        &self,
        node: &str,
        floor: u64,
        roster: &Roster,
    ) -> Result<Option<Instant>, Lacking> {
        let known = self.0.get(node);
        let kept = |member: &Member| {
            let promise = known?.get(&member.instance)?;
            (promise.floor >= floor).then_some(promise.basis)
        };
        let of = roster.set(node).count();
        if of == 0 {
            return Ok(None);
        }
        let mut bases: Vec<Option<Instant>> = roster.set(node).filter_map(kept).collect();
        bases.sort_unstable();
        // Of whichever majority votes, one is among the first of these, and votes no more.
        let basis = bases.get(of / 2).copied();
        basis.ok_or(Lacking {
            promised: bases.len(),
            of,
        })
    }

    /// Forgets nodes that nobody knows any more.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.0.retain(|node, _| known(node));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct World {
        promises: Promises,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            Self {
                promises: Promises::default(),
                start: Instant::now(),
            }
        }

        fn at(&self, seconds: u64) -> Option<Instant> {
            Some(self.start + Duration::from_secs(seconds))
        }

        /// A witness stored floor 7, and had last voted then.
        fn promise(&mut self, instance: u64, voted: Option<u64>) {
            let basis = voted.and_then(|seconds| self.at(seconds));
            let promise = Promise { floor: 7, basis };
            self.promises.note("n", instance, promise);
        }

        fn basis(&self, floor: u64, rosters: &[Roster]) -> Result<Option<Instant>, Lacking> {
            self.promises.basis("n", floor, rosters.iter())
        }
    }

    /// A set of these, as a node sees it that is none of them.
    fn set(instances: &[u64]) -> Roster {
        let member = |instance: &u64| Member {
            node: instance.to_string(),
            instance: *instance,
        };
        let spare = Member {
            node: "spare".to_owned(),
            instance: 99,
        };
        Roster {
            version: 1,
            members: instances.iter().map(member).chain([spare]).collect(),
        }
    }

    #[test]
    fn a_majority_of_the_whole_set_is_needed() {
        let mut world = World::new();
        let of = |promised| Err(Lacking { promised, of: 5 });
        world.promise(1, Some(1));
        world.promise(99, Some(1));
        assert_eq!(world.basis(7, &[set(&[1, 2, 3, 4, 5])]), of(1));
        world.promise(2, Some(2));
        assert_eq!(world.basis(7, &[set(&[1, 2, 3, 4, 5])]), of(2));
        world.promise(3, Some(3));
        let basis = world.basis(7, &[set(&[1, 2, 3, 4, 5])]);
        assert_eq!(basis, Ok(world.at(3)));
    }

    #[test]
    fn of_several_majorities_the_one_that_voted_earliest_counts() {
        let mut world = World::new();
        world.promise(1, Some(9));
        world.promise(2, None);
        world.promise(3, Some(4));
        assert_eq!(world.basis(7, &[set(&[1, 2, 3])]), Ok(world.at(4)));
    }

    #[test]
    fn a_majority_of_every_set_is_needed() {
        let mut world = World::new();
        for instance in [1, 2] {
            world.promise(instance, Some(instance));
        }
        let sets = [set(&[1, 2, 3]), set(&[1, 4, 3])];
        let lacking = Lacking { promised: 1, of: 3 };
        assert_eq!(world.basis(7, &sets), Err(lacking));
        world.promise(4, Some(8));
        assert_eq!(world.basis(7, &sets), Ok(world.at(8)));
    }

    #[test]
    fn a_lower_floor_promises_nothing_and_a_higher_one_does() {
        let mut world = World::new();
        world.promise(1, Some(1));
        assert!(world.basis(8, &[set(&[1])]).is_err());
        assert_eq!(world.basis(6, &[set(&[1])]), Ok(world.at(1)));
    }

    #[test]
    fn the_first_promise_of_a_floor_counts() {
        let mut world = World::new();
        world.promise(1, Some(1));
        world.promise(1, Some(5));
        assert_eq!(world.basis(7, &[set(&[1])]), Ok(world.at(1)));
    }

    #[test]
    fn of_a_set_of_nobody_nothing_is_needed() {
        let nobody = Roster::default();
        assert_eq!(World::new().basis(7, &[nobody]), Ok(None));
    }
}
