//! Who is asked about nodes that the controller does not hear.
//!
//! Some who can be asked, a few at a time, the same ones again and again, spread over the zones; and
//! never more questions than a mass failure leaves time for.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use probe_ebpf::wire::NodeId;

use crate::health::NodeIndex;

/// How many are asked about a node in one round.
const AT_ONCE: usize = 3;
/// How many questions may be asked within half the timeout, so that most nodes' falling silent at
/// once does not keep the controller and the agents from anything else. Nodes beyond that are
/// decided on by the controller's own silence.
const MOST: u32 = 192;
/// The same, for nodes that others have been hearing. Their answers come at once.
const MOST_ABOUT_HEARD: u32 = 3 * MOST;

/// A node that may be asked.
pub(super) struct Member<'a> {
    pub(super) index: NodeIndex,
    pub(super) name: &'a str,
    /// Where it is; nodes in one zone fail together.
    pub(super) zone: Option<&'a str>,
}

/// Whom to ask.
#[derive(Debug)]
pub(super) struct Panel {
    /// Who is asked first, comes first.
    order: Vec<NodeIndex>,
    doubts: HashMap<NodeIndex, Doubt>,
    budget: Budget,
}

/// A node that is asked about.
#[derive(Debug, Default)]
struct Doubt {
    /// Who has been asked since anybody heard it.
    asked: Vec<NodeIndex>,
    /// Who heard it, the last one first.
    heard_by: Vec<NodeIndex>,
    /// Who received packets from its tunnels, the last one first.
    reached_by: Vec<NodeIndex>,
}

impl Panel {
    /// Nobody yet. At most so many are asked within `window` as there is time for.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            order: Vec::new(),
            doubts: HashMap::new(),
            budget: Budget {
                window,
                began: None,
                asked: 0,
            },
        }
    }

    /// These may be asked. Of those that are alike, always the same come first, one of each zone.
    pub(super) fn set_members<'a>(&mut self, members: impl Iterator<Item = Member<'a>>) {
        let mut zones: BTreeMap<Option<&str>, Vec<(NodeId, NodeIndex)>> = BTreeMap::new();
        for member in members {
            let zone = zones.entry(member.zone).or_default();
            zone.push((NodeId::of(member.name), member.index));
        }
        let mut order = Vec::new();
        for zone in zones.values_mut() {
            zone.sort_unstable();
            let ranked = zone.iter().enumerate();
            order.extend(ranked.map(|(rank, (id, index))| (rank, *id, *index)));
        }
        order.sort_unstable();
        self.order = order.into_iter().map(|(_, _, index)| index).collect();
    }

    /// Whom to ask about `node` now, of those that `fit`; nobody, if there were too many questions
    /// lately.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        node: NodeIndex,
        fit: impl Fn(NodeIndex) -> bool,
    ) -> Vec<NodeIndex> {
        let doubt = self.doubts.entry(node).or_default();
        let room = self.budget.room(now, !doubt.heard_by.is_empty());
        let fit = |other: &NodeIndex| *other != node && fit(*other);
        let mut chosen = doubt.choose(&self.order, room, fit);
        if chosen.is_empty() {
            // Each has been asked: an answer may have been lost.
            doubt.asked.clear();
            chosen = doubt.choose(&self.order, room, fit);
        }
        doubt.asked.extend(&chosen);
        self.budget.asked += chosen.len() as u32;
        chosen
    }

    /// Somebody heard a node that was asked about.
    pub(super) fn note_heard(&mut self, node: NodeIndex, by: NodeIndex) {
        let doubt = self.doubts.entry(node).or_default();
        doubt.asked.clear();
        put_first(&mut doubt.heard_by, by);
    }

    /// Somebody received a packet from the tunnels of a node that was asked about.
    pub(super) fn note_reached(&mut self, node: NodeIndex, by: NodeIndex) {
        let doubt = self.doubts.entry(node).or_default();
        doubt.asked.clear();
        put_first(&mut doubt.reached_by, by);
    }

    /// Who heard a node that was asked about, the last one first.
    pub(super) fn heard_by(&self, node: NodeIndex) -> &[NodeIndex] {
        self.doubts.get(&node).map_or(&[], |doubt| &doubt.heard_by)
    }

    /// A node is not asked about any more.
    pub(super) fn settle(&mut self, node: NodeIndex) {
        self.doubts.remove(&node);
    }

    /// A node is gone: its index may become another's.
    pub(super) fn forget(&mut self, node: NodeIndex) {
        self.settle(node);
        self.order.retain(|other| *other != node);
        for doubt in self.doubts.values_mut() {
            doubt.asked.retain(|other| *other != node);
            doubt.heard_by.retain(|other| *other != node);
            doubt.reached_by.retain(|other| *other != node);
        }
    }
}

impl Doubt {
    /// The next to ask, first those that heard the node, then those that its tunnels reach.
    fn choose(
        &self,
        order: &[NodeIndex],
        room: usize,
        fit: impl Fn(&NodeIndex) -> bool,
    ) -> Vec<NodeIndex> {
        let known = self.heard_by.iter().chain(&self.reached_by);
        let (room, mut chosen) = (room.min(AT_ONCE), Vec::new());
        for it in known.chain(order).filter(|it| fit(it)) {
            if chosen.len() == room {
                break;
            }
            if !self.asked.contains(it) && !chosen.contains(it) {
                chosen.push(*it);
            }
        }
        chosen
    }
}

fn put_first(list: &mut Vec<NodeIndex>, node: NodeIndex) {
    list.retain(|other| *other != node);
    list.insert(0, node);
    list.truncate(AT_ONCE);
}

/// How many questions there were lately.
#[derive(Debug)]
struct Budget {
    window: Duration,
    began: Option<Instant>,
    asked: u32,
}

impl Budget {
    /// How many more may be asked, about a node that others have been hearing or not.
    fn room(&mut self, now: Instant, heard: bool) -> usize {
        let lasts = |began: Instant| now.saturating_duration_since(began) < self.window;
        if !self.began.is_some_and(lasts) {
            (self.began, self.asked) = (Some(now), 0);
        }
        let most = if heard { MOST_ABOUT_HEARD } else { MOST };
        most.saturating_sub(self.asked) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(500);

    /// Nodes 0 to `count` - 1, each in the zone that `zone` says.
    fn panel(count: u32, zone: impl Fn(u32) -> Option<&'static str>) -> Panel {
        let mut panel = Panel::new(WINDOW);
        let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
        let members = (0..count).zip(&names).map(|(number, name)| Member {
            index: NodeIndex(number),
            name,
            zone: zone(number),
        });
        panel.set_members(members);
        panel
    }

    fn anybody(_: NodeIndex) -> bool {
        true
    }

    #[test]
    fn a_node_is_not_asked_about_itself() {
        let mut panel = panel(3, |_| None);
        let asked = panel.ask(Instant::now(), NodeIndex(1), anybody);
        assert_eq!(asked.len(), 2);
        assert!(!asked.contains(&NodeIndex(1)));
    }

    #[test]
    fn who_does_not_fit_is_not_asked() {
        let mut panel = panel(9, |_| None);
        let asked = panel.ask(Instant::now(), NodeIndex(1), |it| it.0 > 6);
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|it| it.0 > 6));
    }

    #[test]
    fn others_are_asked_in_each_round_until_all_have_been() {
        let (mut panel, now) = (panel(10, |_| None), Instant::now());
        let node = NodeIndex(4);
        let mut asked: Vec<_> = (0..3).flat_map(|_| panel.ask(now, node, anybody)).collect();
        let first = asked[..3].to_vec();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 9);
        assert_eq!(panel.ask(now, node, anybody), first, "from the beginning");
    }

    #[test]
    fn the_first_to_be_asked_are_in_different_zones() {
        let zone = |number| {
            Some(if number < 20 {
                "a"
            } else if number < 22 {
                "b"
            } else {
                "c"
            })
        };
        let mut panel = panel(24, zone);
        let asked = panel.ask(Instant::now(), NodeIndex(0), anybody);
        let mut zones: Vec<_> = asked.iter().map(|it| zone(it.0)).collect();
        zones.sort_unstable();
        assert_eq!(zones, [Some("a"), Some("b"), Some("c")]);
    }

    #[test]
    fn the_same_are_asked_about_different_nodes() {
        let (mut panel, now) = (panel(100, |_| None), Instant::now());
        let mut ask = |node| panel.ask(now, NodeIndex(node), anybody);
        let mut asked: Vec<_> = (0..10).flat_map(&mut ask).collect();
        asked.sort_unstable();
        asked.dedup();
        assert!(asked.len() <= 6, "{asked:?}");
    }

    #[test]
    fn who_heard_a_node_is_asked_first_the_next_time() {
        let (mut panel, now) = (panel(10, |_| None), Instant::now());
        let node = NodeIndex(4);
        panel.ask(now, node, anybody);
        let late = panel.ask(now, node, anybody)[1];
        panel.note_heard(node, late);
        assert_eq!(panel.ask(now, node, anybody)[0], late);
        assert_eq!(panel.heard_by(node), [late]);
    }

    #[test]
    fn who_is_reached_by_a_nodes_tunnels_is_asked_right_after_those_who_hear_it() {
        let (mut panel, now) = (panel(10, |_| None), Instant::now());
        let node = NodeIndex(4);
        panel.ask(now, node, anybody);
        let late = panel.ask(now, node, anybody);
        panel.note_reached(node, late[0]);
        panel.note_heard(node, late[0]);
        panel.note_reached(node, late[1]);
        panel.note_heard(node, late[2]);
        let expected = [late[2], late[0], late[1]];
        assert_eq!(panel.ask(now, node, anybody), expected);
        assert_eq!(panel.heard_by(node), [late[2], late[0]]);
    }

    #[test]
    fn the_number_of_questions_is_bounded_however_many_nodes_are_silent() {
        let (mut panel, now) = (panel(10_000, |_| None), Instant::now());
        let mut round = |now| -> usize {
            let all = (0..10_000).map(NodeIndex);
            all.map(|node| panel.ask(now, node, anybody).len()).sum()
        };
        assert_eq!(round(now), MOST as usize);
        assert_eq!(round(now + WINDOW / 2), 0);
        assert_eq!(round(now + WINDOW), MOST as usize);
    }

    #[test]
    fn nodes_that_others_hear_are_asked_about_beyond_that() {
        let (mut panel, now) = (panel(10_000, |_| None), Instant::now());
        panel.note_heard(NodeIndex(7), NodeIndex(8));
        for node in (1_000..2_000).map(NodeIndex) {
            panel.ask(now, node, anybody);
        }
        assert_eq!(panel.ask(now, NodeIndex(7), anybody).len(), AT_ONCE);
    }

    #[test]
    fn who_is_gone_is_neither_asked_nor_believed() {
        let (mut panel, now) = (panel(3, |_| None), Instant::now());
        panel.note_heard(NodeIndex(0), NodeIndex(1));
        panel.forget(NodeIndex(1));
        assert_eq!(panel.heard_by(NodeIndex(0)), []);
        assert_eq!(panel.ask(now, NodeIndex(0), anybody), [NodeIndex(2)]);
    }
}
