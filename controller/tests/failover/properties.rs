//! What holds whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use controller::failover::{Cause, Event, Fencing, PlannerSettings};
use controller::health::State;
use proptest::prelude::*;

use crate::world::{SETTINGS, World, gateway};

const NODES: usize = 5;
const POOL: [&str; 1] = ["10.78.0.0/29"];

#[derive(Clone, Copy, Debug)]
enum Step {
    State(usize, State),
    Select(usize, bool),
    Drain(usize, bool),
    Mute(usize, bool),
    Pass(u64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 1..=NODES;
    let state = prop_oneof![
        4 => Just(State::Available),
        3 => Just(State::Unreachable),
        1 => Just(State::Unavailable),
    ];
    let step = prop_oneof![
        6 => (node(), state).prop_map(|(node, state)| Step::State(node, state)),
        1 => (node(), any::<bool>()).prop_map(|(node, on)| Step::Select(node, on)),
        1 => (node(), any::<bool>()).prop_map(|(node, on)| Step::Drain(node, on)),
        1 => (node(), any::<bool>()).prop_map(|(node, on)| Step::Mute(node, on)),
        3 => (10..40_000u64).prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

fn fencings() -> impl Strategy<Value = Fencing> {
    let lease = Duration::from_secs(5);
    prop_oneof![Just(Fencing::None), Just(Fencing::Strict { lease })]
}

/// The world, and the facts that decide whether a move is one that may be.
struct Watched {
    settings: PlannerSettings,
    world: World,
    states: BTreeMap<String, State>,
    selected: BTreeSet<String>,
    drained: BTreeSet<String>,
}

impl Watched {
    fn new(fencing: Fencing) -> Self {
        let settings = PlannerSettings {
            fencing,
            ..SETTINGS
        };
        let world = World::with(settings, NODES, &POOL);
        let names = world.node_names();
        Self {
            states: names
                .iter()
                .map(|name| (name.clone(), State::Available))
                .collect(),
            selected: names.into_iter().collect(),
            drained: BTreeSet::new(),
            settings,
            world,
        }
    }

    fn take(&mut self, step: Step) {
        let name = |index: usize| format!("n{index}");
        match step {
            Step::State(node, state) => {
                self.states.insert(name(node), state);
                self.world.set_state(&name(node), state);
                self.world.confirm(&name(node));
                self.world.run();
            }
            Step::Select(node, on) => {
                set(&mut self.selected, name(node), on);
                self.world.select(&name(node), on);
            }
            Step::Drain(node, true) => {
                self.drained.insert(name(node));
                self.world.drain(&name(node));
            }
            Step::Drain(node, false) => {
                self.drained.remove(&name(node));
                self.world.undrain(&name(node));
            }
            Step::Mute(node, on) => {
                set(&mut self.world.mute, name(node), on);
                self.world.confirm(&name(node));
                self.world.run();
            }
            Step::Pass(time) => self.world.pass(Duration::from_millis(time)),
            Step::Restart => self
                .world
                .restart(self.settings, vec![gateway("gw", &POOL)]),
        }
    }

    fn check_causes(&self, before: &BTreeMap<IpAddr, Option<String>>) {
        for event in &self.world.events {
            let Event::Moved {
                address,
                from,
                to,
                cause,
                ..
            } = event
            else {
                continue;
            };
            if let Some(from) = from.as_deref() {
                let holds = match cause {
                    Some(Cause::Unreachable) => self.states[from] == State::Unreachable,
                    Some(Cause::Unselected) => !self.selected.contains(from),
                    Some(Cause::Drained) => self.drained.contains(from),
                    _ => false,
                };
                // What has begun is carried through even if its cause is gone, as long as the owner
                // could not be given the address anew, or had released it.
                let was_owner = before
                    .get(address)
                    .is_some_and(|owner| owner.as_deref() == Some(from));
                let carried_through = was_owner && cause.is_some() && !self.is_kept(from);
                assert!(holds || carried_through, "{event:?}");
            }
            if let Some(to) = to.as_deref() {
                assert!(self.selected.contains(to), "{event:?}");
                assert_eq!(self.states[to], State::Available, "{event:?}");
                assert!(!self.drained.contains(to), "{event:?}");
            }
        }
    }

    /// Whether an owner with nothing against it has not confirmed that it released anything.
    fn is_kept(&self, name: &str) -> bool {
        self.is_fit(name) && self.world.mute.contains(name)
    }

    fn is_fit(&self, name: &str) -> bool {
        let view = self.world.planner.view(self.world.now.instant);
        let mut candidates = view.gateways[0].candidates.iter();
        candidates.any(|candidate| candidate.node == name && candidate.barred.is_none())
    }

    /// No two nodes that may act on what they were told were told to hold the same address.
    fn check_owners(&self) {
        let mut holders: BTreeMap<IpAddr, &str> = BTreeMap::new();
        let owners = self.world.owners();
        for (node, told) in &self.world.told {
            for told in &told.addresses {
                if let Some(other) = holders.insert(told.address, node) {
                    panic!("{} is held by {other} and {node}", told.address);
                }
                assert_eq!(owners[&told.address].as_deref(), Some(node.as_str()));
            }
        }
    }

    /// Whoever was given an address has no more than its share of them.
    fn check_balance(&self, given: &BTreeSet<String>) {
        let available = |name: &&String| self.states[*name] == State::Available;
        let eligible = self
            .selected
            .difference(&self.drained)
            .filter(available)
            .count();
        // Damped nodes take no part, so that at most this many share.
        let view = self.world.planner.view(self.world.now.instant);
        let barred = |candidate: &&controller::api::Candidate| candidate.barred.is_none();
        let sharing = view.gateways[0].candidates.iter().filter(barred).count();
        assert!(sharing <= eligible);
        for node in given {
            let owners = self.world.owners();
            let load = owners
                .values()
                .flatten()
                .filter(|owner| *owner == node)
                .count();
            assert!(
                load <= owners.len().div_ceil(sharing.max(1)),
                "{node}: {load} {owners:?}"
            );
        }
    }
}

fn set(names: &mut BTreeSet<String>, name: String, on: bool) {
    if on {
        names.insert(name);
    } else {
        names.remove(&name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_move_has_a_cause_a_fit_owner_and_keeps_the_balance(
        steps in steps(),
        fencing in fencings(),
    ) {
        let mut watched = Watched::new(fencing);
        for step in steps {
            let before = watched.world.owners();
            watched.world.events.clear();
            watched.take(step);
            watched.check_causes(&before);
            watched.check_owners();
            let after = watched.world.owners();
            let given = after.iter().filter(|(ip, owner)| before.get(*ip) != Some(*owner));
            let given = given.filter_map(|(_, owner)| owner.clone()).collect();
            watched.check_balance(&given);
        }
    }

    #[test]
    fn no_address_stays_without_an_owner_while_somebody_may_own_it(
        steps in steps(),
        fencing in fencings(),
    ) {
        let mut watched = Watched::new(fencing);
        for step in steps {
            watched.take(step);
            let view = watched.world.planner.view(watched.world.now.instant);
            let gateway = &view.gateways[0];
            if gateway.candidates.iter().any(|candidate| candidate.barred.is_none()) {
                let homeless = gateway.addresses.iter().find(|address| address.owner.is_none());
                prop_assert!(homeless.is_none(), "{homeless:?}");
            }
        }
    }

    #[test]
    fn the_order_of_what_happens_at_once_makes_no_difference(
        states in prop::collection::vec(
            prop::sample::select(vec![State::Available, State::Unavailable, State::Unreachable]),
            NODES,
        ),
        order in Just((1..=NODES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let owners = |order: &[usize]| {
            let mut world = World::with(SETTINGS, NODES, &POOL);
            for &index in order {
                world.observe(&format!("n{index}"), states[index - 1]);
            }
            world.run();
            world.owners()
        };
        let sorted: Vec<usize> = (1..=NODES).collect();
        prop_assert_eq!(owners(&order), owners(&sorted));
    }
}
