//! What the controller says: its stream of transitions, remembered, and its present state.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use controller::api::{NodeList, State, StreamLine};
use pulsepath_tests::node::CONTROLLER_HTTP;
use pulsepath_tests::{Node, http};

use crate::clock::Clock;
use crate::console::Console;

/// A transition on the demo's own time line.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When the controller decided.
    pub(crate) at: Duration,
    /// Which node.
    pub(crate) node: String,
    /// Its new state.
    pub(crate) to: State,
}

/// Listens to a controller until that one ends.
pub(crate) struct Watcher {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Watcher {
    /// Subscribes to the controller on `host`, then asks for the states that it had already
    /// decided.
    pub(crate) fn start(host: &Node, clock: Clock, console: Console) -> Result<Self> {
        let server = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), CONTROLLER_HTTP);
        let lines = http::lines(host.netns(), server, "/v1/transitions")?;
        let decided = nodes(host)?
            .nodes
            .into_iter()
            .filter(|node| node.state != State::Unknown);
        let decided: Vec<_> = decided
            .map(|node| Seen {
                at: clock.at_system(node.since.0),
                node: node.name,
                to: node.state,
            })
            .collect();
        for first in &decided {
            console.tell(&format!(
                "controller: {} is {} already",
                first.node, first.to
            ));
        }
        let seen = Arc::new(Mutex::new(decided));
        let shared = Arc::clone(&seen);
        thread::Builder::new()
            .name("watcher".into())
            .spawn(move || watch(lines, &shared, clock, console))
            .context("start the watcher's thread")?;
        Ok(Self { seen })
    }

    /// How much was seen so far: what comes later is news.
    pub(crate) fn mark(&self) -> usize {
        lock(&self.seen).len()
    }

    /// The first time since `mark` that `node` got into `state`.
    pub(crate) fn find(&self, mark: usize, node: &str, state: State) -> Option<Seen> {
        let seen = lock(&self.seen);
        seen[mark..]
            .iter()
            .find(|seen| seen.node == node && seen.to == state)
            .cloned()
    }

    /// The states that one of `nodes` got into since `mark`.
    pub(crate) fn news(&self, mark: usize, nodes: &[&str]) -> Vec<Seen> {
        let seen = lock(&self.seen);
        seen[mark..]
            .iter()
            .filter(|seen| nodes.contains(&seen.node.as_str()))
            .cloned()
            .collect()
    }

    /// All states of `node` with their beginnings.
    pub(crate) fn history(&self, node: &str) -> Vec<(Duration, State)> {
        self.news(0, &[node])
            .into_iter()
            .map(|seen| (seen.at, seen.to))
            .collect()
    }
}

fn watch(
    lines: impl Iterator<Item = std::io::Result<String>>,
    seen: &Mutex<Vec<Seen>>,
    clock: Clock,
    console: Console,
) {
    for line in lines.map_while(Result::ok).filter(|line| !line.is_empty()) {
        match serde_json::from_str(&line) {
            Ok(StreamLine::Transition(transition)) => {
                let news = Seen {
                    at: clock.at_system(transition.at.0),
                    node: transition.node.clone(),
                    to: transition.to,
                };
                let mut seen = lock(seen);
                // Between subscribing and asking, a transition may come both ways.
                let known = seen.iter().any(|old| {
                    old.node == news.node && old.to == news.to && old.at.abs_diff(news.at) < SAME
                });
                if !known {
                    console.transition(&transition);
                    seen.push(news);
                }
            }
            Ok(StreamLine::Missed { missed }) => {
                console.tell(&format!("the demo was too slow for {missed} transitions"));
            }
            Err(error) => console.tell(&format!("not understood: {line}: {error}")),
        }
    }
}

/// Two reports of one transition give the same time, to the millisecond.
const SAME: Duration = Duration::from_millis(2);

/// The state of all nodes as the controller on `host` sees them now.
pub(crate) fn nodes(host: &Node) -> Result<NodeList> {
    let answer = host.controller_http("/v1/nodes")?;
    ensure!(
        answer.status == 200,
        "/v1/nodes answered {}: {}",
        answer.status,
        answer.body
    );
    serde_json::from_str(&answer.body).with_context(|| format!("read {}", answer.body))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
