//! Reads the stream of transitions, and notes when each line arrived.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use controller::api::{StreamLine, Transition};
use pulsepath_tests::{Node, http};

/// Far longer than any detection takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A transition, and when the test knew of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// How long the line took to be read.
    pub(crate) reading: Duration,
    pub(crate) transition: Transition,
}

impl Seen {
    fn new(line: &str) -> Self {
        let (at, wall) = (Instant::now(), SystemTime::now());
        let transition = match serde_json::from_str(line) {
            Ok(StreamLine::Transition(transition)) => transition,
            other => panic!("not a transition: {other:?}"),
        };
        let reading = wall.duration_since(transition.at.0).unwrap_or_default();
        Self {
            at,
            reading,
            transition,
        }
    }

    /// How late the controller says it was when it decided.
    pub(crate) fn lag(&self) -> Duration {
        Duration::from_secs_f64(self.transition.lag_ms / 1e3)
    }

    /// How long the node had been silent as the controller counts it.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs_f64(self.transition.silence_ms / 1e3)
    }

    /// Time between the node's last reply and the decision that the controller does not count as
    /// silence, since it was late or did not probe.
    pub(crate) fn not_counted(&self) -> Duration {
        let last_reply = self.transition.last_reply.unwrap().0;
        let elapsed = self.transition.at.0.duration_since(last_reply);
        elapsed.unwrap_or_default().saturating_sub(self.silence())
    }
}

/// The transitions since it was started.
pub(crate) struct Watch {
    seen: Receiver<Seen>,
}

impl Watch {
    pub(crate) fn start(controller: &Node) -> Self {
        let server = "127.0.0.1:9865".parse().unwrap();
        let lines = http::lines(controller.netns(), server, "/v1/transitions").unwrap();
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(Seen::new(&line)).is_err() {
                    return;
                }
            }
        });
        Self { seen }
    }

    /// The next transition.
    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).unwrap()
    }

    /// Fails if there was a transition that nobody has taken.
    pub(crate) fn assert_quiet(&self) {
        if let Ok(seen) = self.seen.try_recv() {
            panic!("unexpected: {:?}", seen.transition);
        }
    }
}
