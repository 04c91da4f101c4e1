//! Asks agents about nodes that nobody is known to hear, and has the monitor know who hears them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_user::channel::Security;
use probe_user::logging::in_words;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::channel::Asker;
use crate::metrics::{AskOutcome, Metrics};
use crate::monitor::driver::Control;
use crate::monitor::{Ask, Testimony};

/// Time for an answer's way back, beside the time that the question may wait.
const WAY_BACK: Duration = Duration::from_millis(100);

/// Asks.
pub(crate) struct Asking {
    pub(crate) asks: UnboundedReceiver<Ask>,
    pub(crate) control: Control,
    /// Where agents listen.
    pub(crate) agents: u16,
    /// Where reflectors listen.
    pub(crate) reflectors: u16,
    pub(crate) metrics: Metrics,
}

impl Asking {
    /// Asks until nobody has any more questions.
    pub(crate) async fn run(mut self, security: Security) {
        let mut asker = Asker::new(security);
        while let Some(ask) = self.asks.recv().await {
            let at = |address: &IpAddr| SocketAddr::new(*address, self.agents);
            let addresses: Vec<SocketAddr> = ask.at.iter().map(at).collect();
            let question = ask.question(self.reflectors);
            let asked = Instant::now();
            let answer = asker.ask(&ask.witness, &addresses, question, ask.wait + WAY_BACK);
            let (control, metrics) = (self.control.clone(), self.metrics.clone());
            tokio::spawn(async move {
                let outcome = match answer.await {
                    Ok(report) => tell(&control, ask.testimony(asked, &report.heard)),
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
}

fn tell(control: &Control, testimony: Option<Testimony>) -> AskOutcome {
    match testimony {
        Some(testimony) => {
            control.testify(testimony);
            AskOutcome::Heard
        }
        None => AskOutcome::NotHeard,
    }
}
