//! One node's agent: brings it what it is told, until it has done it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use probe_user::channel::{Malformed, Report};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::link::Link;
use super::order::Order;
use crate::health::State;

/// Pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Pause between attempts to reach a node that is UNREACHABLE.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(5);

/// What became of telling an agent.
#[derive(Debug)]
pub struct Answer<R = Report> {
    /// The node.
    pub node: Arc<str>,
    /// The version, of a push the epoch, that the agent was told.
    pub version: u64,
    /// What became of it.
    pub outcome: Outcome<R>,
}

/// What became of an order.
#[derive(Debug)]
pub enum Outcome<R = Report> {
    /// The agent has done it.
    Done(R),
    /// It is not known to have been done. It is tried again, unless a newer one comes first.
    Failed(Failure),
}

/// Why an order is not known to have been done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The agent did not answer in time, or cannot be reached.
    #[error("the agent at {address} does not answer: {why}")]
    NoAnswer {
        /// Where it was tried.
        address: SocketAddr,
        /// Why, for people.
        why: String,
    },
    /// The agent must not do it: it has done a newer one, or another incarnation of the node, or
    /// another witness, is meant.
    #[error("the agent at {address} refuses it: {why}")]
    Stale {
        /// Where it was tried.
        address: SocketAddr,
        /// What the agent said.
        why: String,
    },
    /// The agent answered with another error.
    #[error("the agent at {address} fails: {why}")]
    Unable {
        /// Where it was tried.
        address: SocketAddr,
        /// What the agent said.
        why: String,
    },
    /// The agent's answer makes no sense.
    #[error("the agent at {address} answered what makes no sense")]
    Malformed {
        /// Where it was tried.
        address: SocketAddr,
        /// What is wrong with it.
        source: Malformed,
    },
    /// The node has no address.
    #[error("the node has no address")]
    NoAddress,
}

/// What an agent shall be told, where it is, and how its node is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Orders<O> {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) order: O,
    pub(super) state: State,
}

/// Brings an agent what is ordered, the newest only.
pub(super) struct Courier<O: Order> {
    pub(super) node: Arc<str>,
    pub(super) link: Link,
    pub(super) orders: watch::Receiver<Orders<O>>,
    pub(super) answers: mpsc::UnboundedSender<Answer<O::Report>>,
}

impl<O: Order> Courier<O> {
    /// Runs until nobody can order anything any more.
    pub(super) async fn run(mut self) {
        let mut pace = Pace::new(O::LONGEST_PAUSE);
        let mut done = None;
        loop {
            let orders = self.orders.borrow_and_update().clone();
            if pace.follow(orders.state) {
                // Packets on a path that comes and goes are sent again ever more rarely; those of a
                // new connection go at once.
                self.link.disconnect();
                done = None;
            }
            if O::REFRESH.is_none() && done.as_ref() == Some(&orders.order) {
                self.link.disconnect();
                match self.orders.changed().await {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            }
            let order = orders.order;
            let attempt = tokio::select! {
                biased;
                // What is under way is out of date.
                newer = self.orders.changed() => match newer {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                result = self.link.deliver(&orders.addresses, order.clone()) => result,
            };
            let version = order.version();
            done = attempt.is_ok().then_some(order);
            let answer = Answer {
                node: self.node.clone(),
                version,
                outcome: attempt.map_or_else(Outcome::Failed, Outcome::Done),
            };
            if self.answers.send(answer).is_err() {
                return;
            }
            let rest = match done {
                Some(_) => pace.rest_after_success(O::REFRESH),
                None => pace.rest_after_failure(),
            };
            tokio::select! {
                newer = self.orders.changed() => if newer.is_err() { return },
                () = sleep(rest) => {}
                // It is made anew before it is needed.
                () = async {
                    self.link.broken().await;
                    sleep(FIRST_PAUSE).await;
                } => {}
            }
        }
    }
}

/// How long to wait between attempts.
struct Pace {
    state: State,
    pause: Duration,
    longest: Duration,
}

impl Pace {
    fn new(longest: Duration) -> Self {
        Self {
            state: State::Unknown,
            pause: FIRST_PAUSE,
            longest,
        }
    }

    /// Follows the node's state: whenever that has changed, an attempt may fare otherwise than the
    /// last one. Whether the way to the node is another one now.
    fn follow(&mut self, state: State) -> bool {
        let before = std::mem::replace(&mut self.state, state);
        if before == state {
            return false;
        }
        self.pause = FIRST_PAUSE;
        before == State::Unreachable || state == State::Unreachable
    }

    fn rest_after_success(&mut self, refresh: Option<Duration>) -> Duration {
        self.pause = FIRST_PAUSE;
        refresh.unwrap_or_default()
    }

    fn rest_after_failure(&mut self) -> Duration {
        if self.state == State::Unreachable {
            return UNREACHABLE_PAUSE;
        }
        let rest = self.pause;
        self.pause = (rest * 2).min(self.longest);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(5);

    #[test]
    fn attempts_become_rare_until_one_succeeds() {
        let mut pace = Pace::new(LONGEST);
        let rests: Vec<u128> = (0..9)
            .map(|_| pace.rest_after_failure().as_millis())
            .collect();
        assert_eq!(rests, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let refresh = Duration::from_secs(7);
        assert_eq!(pace.rest_after_success(Some(refresh)), refresh);
        assert_eq!(pace.rest_after_failure(), FIRST_PAUSE);
    }

    #[test]
    fn an_unreachable_node_is_tried_rarely_and_one_that_is_back_at_once() {
        let mut pace = Pace::new(LONGEST);
        pace.follow(State::Unreachable);
        assert_eq!(pace.rest_after_failure(), UNREACHABLE_PAUSE);
        pace.follow(State::Available);
        assert_eq!(pace.rest_after_failure(), FIRST_PAUSE);
    }

    #[test]
    fn connections_are_given_up_when_a_node_goes_and_when_it_comes_back() {
        let mut pace = Pace::new(LONGEST);
        assert!(!pace.follow(State::Available));
        assert!(!pace.follow(State::Unavailable));
        assert!(pace.follow(State::Unreachable));
        assert!(!pace.follow(State::Unreachable));
        assert!(pace.follow(State::Unavailable));
    }
}
