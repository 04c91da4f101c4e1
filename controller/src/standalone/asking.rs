//! Asks agents about nodes that nobody is known to hear, and has the monitor know who hears them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_user::channel::{Heard, Question, Security, Watched};
use probe_user::logging::in_words;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::channel::Asker;
use crate::metrics::{AskOutcome, Metrics};
use crate::monitor::driver::Control;
use crate::monitor::{Ask, Testimony};

/// Time for an answer's way back, beside the time that the question may wait.
const WAY_BACK: Duration = Duration::from_millis(100);

/// Asks.
pub(super) struct Asking {
    pub(super) asks: UnboundedReceiver<Ask>,
    pub(super) control: Control,
    /// Where agents listen.
    pub(super) agents: u16,
    /// Where reflectors listen.
    pub(super) reflectors: u16,
    pub(super) metrics: Metrics,
}

impl Asking {
    /// Asks until nobody has any more questions.
    pub(super) async fn run(mut self, security: Security) {
        let mut asker = Asker::new(security);
        while let Some(ask) = self.asks.recv().await {
            let at = |address: &IpAddr| SocketAddr::new(*address, self.agents);
            let addresses: Vec<SocketAddr> = ask.at.iter().map(at).collect();
            let question = self.question(&ask);
            let asked = Instant::now();
            let answer = asker.ask(&ask.witness, &addresses, question, ask.wait + WAY_BACK);
            let (control, metrics) = (self.control.clone(), self.metrics.clone());
            tokio::spawn(async move {
                let outcome = match answer.await {
                    Ok(report) => match testimony(&ask, asked, &report.heard) {
                        Some(testimony) => {
                            control.testify(testimony);
                            AskOutcome::Heard
                        }
                        None => AskOutcome::NotHeard,
                    },
                    Err(failure) => {
                        let error = in_words(&failure);
                        tracing::debug!(witness = ask.witness, node = ask.node, error, "no answer");
                        AskOutcome::NoAnswer
                    }
                };
                metrics.count_ask(outcome);
            });
        }
    }

    fn question(&self, ask: &Ask) -> Question {
        Question {
            watched: Watched {
                keys: ask.keys.clone(),
                addresses: ask.addresses.clone(),
                floor: 0,
                vote: false,
            },
            wait: ask.wait,
            max_age: ask.max_age,
            port: self.reflectors,
        }
    }
}

/// What an answer to `ask`, which was asked at `asked`, says about the node; `None`: not that it was
/// heard, or nothing new.
fn testimony(ask: &Ask, asked: Instant, heard: &Heard) -> Option<Testimony> {
    let ago = heard.heard_ago.filter(|ago| *ago <= ask.max_age)?;
    Some(Testimony {
        witness: ask.witness.clone(),
        node: ask.node.clone(),
        // The answer was made later than the question, so the reply came no earlier than this.
        heard: asked.checked_sub(ago)?,
        lease_held: heard.lease_held,
    })
}

#[cfg(test)]
mod tests {
    use probe_user::keys::ClusterKeys;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ask() -> Ask {
        Ask {
            witness: "n2".to_owned(),
            at: vec![[10, 0, 0, 2].into()],
            node: "n1".to_owned(),
            addresses: vec![[10, 0, 0, 1].into()],
            keys: ClusterKeys::generate(1).unwrap().node_keys("n1"),
            max_age: 3 * SECOND,
            wait: SECOND,
        }
    }

    fn heard(ago: Option<Duration>) -> Heard {
        Heard {
            heard_ago: ago,
            lease_held: true,
            ..Heard::default()
        }
    }

    #[test]
    fn who_never_heard_the_node_or_not_for_too_long_testifies_nothing() {
        let asked = Instant::now();
        assert_eq!(testimony(&ask(), asked, &heard(None)), None);
        assert_eq!(testimony(&ask(), asked, &heard(Some(4 * SECOND))), None);
    }

    #[test]
    fn what_was_heard_is_not_taken_for_newer_than_it_is() {
        let asked = Instant::now();
        let testimony = testimony(&ask(), asked, &heard(Some(2 * SECOND))).unwrap();
        assert_eq!(testimony.heard, asked - 2 * SECOND);
        assert!(testimony.lease_held);
        assert_eq!((&*testimony.witness, &*testimony.node), ("n2", "n1"));
    }
}
