use probe_user::channel::Heard;

use super::*;

const SETTINGS: WitnessSettings = WitnessSettings {
    count: 3,
    patience: Duration::from_secs(60),
};
const LEASE: Duration = Duration::from_secs(1);

/// Nodes whose agents answer what they are told, unless they are silent.
struct World {
    witnesses: Witnesses,
    nodes: Vec<Arc<str>>,
    /// The nodes that are voted for.
    leased: Vec<Arc<str>>,
    silent: BTreeSet<Arc<str>>,
    /// Agents that have lost their memory, and which one they have.
    renewed: BTreeMap<Arc<str>, u64>,
    told: BTreeMap<Arc<str>, Duty>,
    floors: BTreeMap<Arc<str>, u64>,
    now: Instant,
}

impl World {
    /// So many nodes `n0`, `n1` ...; all hold addresses.
    fn new(count: usize) -> Self {
        let nodes = (0..count).map(|index| Arc::from(format!("n{index}")));
        let nodes: Vec<Arc<str>> = nodes.collect();
        Self {
            witnesses: Witnesses::default(),
            leased: nodes.clone(),
            nodes,
            silent: BTreeSet::new(),
            renewed: BTreeMap::new(),
            told: BTreeMap::new(),
            floors: BTreeMap::new(),
            now: Instant::now(),
        }
    }

    /// The same, with witnesses that every node has confirmed.
    fn settled(count: usize) -> Self {
        let mut world = Self::new(count);
        world.run();
        world.confirm();
        world.run();
        world
    }

    fn instance(&self, node: &str) -> u64 {
        let index = self.nodes.iter().position(|it| &**it == node).unwrap();
        *self.renewed.get(node).unwrap_or(&(index as u64 + 1))
    }

    /// The instances of the witnesses of a node.
    fn set(&self, node: &str) -> Vec<u64> {
        let set = self.witnesses.roster().set(node);
        set.map(|it| it.instance).collect()
    }

    fn confirm(&mut self) {
        let version = self.witnesses.roster().version;
        for node in &self.nodes {
            self.witnesses.confirm(node, version);
        }
    }

    /// Until nothing more follows.
    fn run(&mut self) {
        for _ in 0..20 {
            self.reappoint();
            let leased: Vec<(Arc<str>, u64)> = self
                .leased
                .iter()
                .map(|node| (node.clone(), self.floors.get(node).copied().unwrap_or(0)))
                .collect();
            for (node, duty) in self.witnesses.duties(self.now, 1, &leased, LEASE) {
                match duty {
                    Some(duty) => self.told.insert(node.clone(), duty),
                    None => self.told.remove(&node),
                };
                self.answer(&node, None);
            }
        }
    }

    fn reappoint(&mut self) -> bool {
        let nominee = |node| Nominee {
            node,
            zone: "",
            is_up: true,
        };
        let nominees: Vec<Nominee<'_>> = self.nodes.iter().map(nominee).collect();
        let holders = self.nodes.iter();
        self.witnesses
            .reappoint(self.now, SETTINGS, &nominees, holders)
    }

    /// The agent of `node` answers what it was told last, having voted for everyone so long ago.
    fn answer(&mut self, node: &Arc<str>, vote_age: Option<Duration>) {
        let Some(duty) = self.told.get(node).filter(|_| !self.silent.contains(node)) else {
            return;
        };
        let instance = self.instance(node);
        if duty.instance.is_some_and(|meant| meant != instance) {
            return self.witnesses.handle_refusal(node);
        }
        let heard = |(node, floor): &(Arc<str>, u64)| Heard {
            node: node.to_string(),
            floor: *floor,
            voted_ago: vote_age,
            ..Heard::default()
        };
        let report = WitnessReport {
            instance,
            heard: duty.watched.iter().map(heard).collect(),
        };
        let version = duty.version;
        self.witnesses
            .handle_report(self.now, node, version, &report);
    }

    fn members(&self) -> Vec<&str> {
        let members = self.witnesses.roster().members.iter();
        members.map(|member| &*member.node).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for node in self.nodes.clone() {
            self.answer(&node, None);
        }
    }

    fn watched(&self, node: &str) -> Vec<&str> {
        let watched = self.told[node].watched.iter();
        watched.map(|(node, _)| &**node).collect()
    }
}

#[test]
fn who_is_chosen_is_asked_for_its_memory_and_appointed_then() {
    let mut world = World::new(5);
    assert!(!world.reappoint(), "nobody's memory is known");
    world.run();
    assert_eq!(world.members(), ["n0", "n1", "n2", "n3"]);
    assert_eq!(world.set("n4"), [1, 2, 3]);
}

#[test]
fn each_watches_the_nodes_in_whose_sets_it_is() {
    let world = World::settled(5);
    assert_eq!(world.watched("n1"), ["n0", "n2", "n3", "n4"]);
    assert_eq!(world.watched("n3"), ["n0", "n1", "n2"]);
    assert!(!world.told.contains_key("n4"));
}

#[test]
fn a_witness_with_nobody_to_watch_is_told_so_all_the_time() {
    let mut world = World::settled(5);
    world.leased.retain(|node| ["n3", "n4"].contains(&&**node));
    world.run();
    assert_eq!(world.watched("n3"), [""; 0]);
    for _ in 0..30 {
        world.pass(Duration::from_secs(5));
        world.run();
    }
    assert_eq!(world.members(), ["n0", "n1", "n2", "n3"]);
}

#[test]
fn fewer_than_three_nodes_have_no_witnesses() {
    assert_eq!(World::settled(2).members(), [""; 0]);
}

#[test]
fn who_does_not_say_which_memory_it_has_is_passed_over() {
    let mut world = World::new(5);
    world.silent.insert(Arc::from("n1"));
    world.run();
    assert_eq!(world.members(), [""; 0]);
    world.pass(SOON);
    world.run();
    assert_eq!(world.members(), ["n0", "n2", "n3", "n4"]);
}

#[test]
fn a_witness_that_is_silent_for_long_is_replaced_and_told_so_once_that_is_confirmed() {
    let mut world = World::settled(5);
    world.silent.insert(Arc::from("n1"));
    world.pass(SETTINGS.patience - Duration::from_secs(1));
    world.run();
    assert_eq!(world.members(), ["n0", "n1", "n2", "n3"]);
    world.pass(Duration::from_secs(1));
    world.run();
    assert_eq!(world.members(), ["n0", "n4", "n2", "n3"]);
    assert_eq!(world.watched("n1").len(), 4, "its votes may count still");
    world.confirm();
    assert!(world.witnesses.prune(world.nodes.iter()) || world.witnesses.rosters().len() == 2);
}

#[test]
fn the_next_change_waits_until_every_holder_has_confirmed_the_last() {
    let mut world = World::settled(6);
    world.silent.extend([Arc::from("n1"), Arc::from("n2")]);
    world.pass(SETTINGS.patience);
    world.run();
    assert_eq!(world.members(), ["n0", "n4", "n2", "n3"]);
    let version = world.witnesses.roster().version;
    for node in &world.nodes[1..] {
        world.witnesses.confirm(node, version);
    }
    world.run();
    assert_eq!(world.members(), ["n0", "n4", "n2", "n3"]);
    world.confirm();
    world.run();
    assert_eq!(world.members(), ["n0", "n4", "n5", "n3"]);
}

#[test]
fn a_witness_that_lost_its_memory_is_another_one_in_the_same_slot() {
    let mut world = World::settled(5);
    world.renewed.insert(Arc::from("n1"), 77);
    for node in world.nodes.clone() {
        world.answer(&node, None);
    }
    world.run();
    assert_eq!(world.set("n4"), [1, 77, 3]);
}

#[test]
fn an_address_waits_for_a_node_with_more_than_one_change_outstanding() {
    let mut world = World::settled(5);
    let late: Arc<str> = Arc::from("late");
    assert!(world.witnesses.may_hold(&late), "one alone");
    let version = world.witnesses.roster().version;
    world.renewed.insert(Arc::from("n1"), 77);
    for node in world.nodes.clone() {
        world.answer(&node, None);
    }
    world.run();
    assert!(!world.witnesses.may_hold(&late));
    world.witnesses.confirm(&late, version);
    assert!(world.witnesses.may_hold(&late));
}

#[test]
fn a_promise_is_needed_of_every_set_that_was_not_confirmed_over() {
    let mut world = World::settled(5);
    world.floors.insert(Arc::from("n4"), 7);
    world.run();
    assert_eq!(world.witnesses.basis("n4", 7), Ok(None));
    assert_eq!(
        world.witnesses.basis("n4", 8),
        Err(Lacking { promised: 0, of: 3 })
    );
    // Two of the next set have promised; of the one before, two as well: n0 and n2.
    world.silent.insert(Arc::from("n1"));
    world.floors.insert(Arc::from("n4"), 8);
    world.run();
    assert_eq!(world.witnesses.basis("n4", 8), Ok(None));
    world.silent.insert(Arc::from("n2"));
    world.floors.insert(Arc::from("n4"), 9);
    world.run();
    let lacking = Lacking { promised: 1, of: 3 };
    assert_eq!(world.witnesses.basis("n4", 9), Err(lacking));
}

#[test]
fn how_long_ago_a_vote_was_counts_from_when_that_is_heard() {
    let mut world = World::settled(5);
    world.floors.insert(Arc::from("n4"), 7);
    for node in ["n0", "n1", "n2"] {
        world.silent.insert(Arc::from(node));
    }
    world.run();
    world.silent.clear();
    for (node, seconds) in [("n0", 9), ("n1", 3), ("n2", 5)] {
        world.answer(&Arc::from(node), Some(Duration::from_secs(seconds)));
    }
    let basis = world.now - Duration::from_secs(5);
    assert_eq!(world.witnesses.basis("n4", 7), Ok(Some(basis)));
}

#[test]
fn a_new_controller_goes_on_with_what_was_recorded_and_takes_nothing_for_confirmed() {
    let before = World::settled(5);
    let mut world = World::new(5);
    world.witnesses = Witnesses::restored(world.now, before.witnesses.rosters());
    assert_eq!(world.members(), before.members());
    assert!(!world.reappoint());
    let lacking = Lacking { promised: 0, of: 3 };
    assert_eq!(world.witnesses.basis("n4", 1), Err(lacking));
    world.run();
    assert_eq!(world.told["n0"].instance, Some(1));
}

#[test]
fn sets_that_nobody_can_have_applied_any_more_are_forgotten_but_for_the_last_two() {
    let mut world = World::settled(5);
    for round in 1..=3 {
        world.renewed.insert(Arc::from("n1"), 70 + round);
        world.pass(Duration::ZERO);
        world.run();
        world.confirm();
    }
    let holders = [world.nodes[0].clone()];
    assert!(world.witnesses.prune(holders.iter()));
    let versions: Vec<u64> = world
        .witnesses
        .rosters()
        .iter()
        .map(|it| it.version)
        .collect();
    assert_eq!(versions, [3, 4]);
    assert!(!world.witnesses.prune(holders.iter()));
}
