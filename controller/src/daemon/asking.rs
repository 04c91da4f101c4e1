//! Asks agents about nodes that nobody is known to hear, and has the monitor know who hears them, and
//! who receives packets from their tunnels.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_user::channel::Security;
use probe_user::logging::in_words;
use probe_user::tunnels::TunnelQuestion;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::channel::{AskFailure, Asker};
use crate::metrics::{AskOutcome, Metrics, Subject};
use crate::monitor::driver::Control;
use crate::monitor::{Ask, Testimony};
use crate::tunnels::TunnelEnd;

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
    /// Where tunnels end.
    pub(crate) ends: watch::Receiver<Vec<TunnelEnd>>,
    pub(crate) metrics: Metrics,
}

impl Asking {
    /// Asks until nobody has any more questions.
    pub(crate) async fn run(mut self, security: Security) {
        let mut asker = Asker::new(security);
        while let Some(ask) = self.asks.recv().await {
            let at = |address: &IpAddr| SocketAddr::new(*address, self.agents);
            let addresses: Vec<SocketAddr> = ask.at.iter().map(at).collect();
            self.ask_for_tunnels(&mut asker, &addresses, &ask);
            self.ask(&mut asker, &addresses, ask);
        }
    }

    /// Whether the agent hears the node.
    fn ask(&self, asker: &mut Asker, addresses: &[SocketAddr], ask: Ask) {
        let (asked, limit) = (Instant::now(), ask.wait + WAY_BACK);
        let question = ask.question(self.reflectors);
        let answer = asker.ask(&ask.witness, addresses, question, limit);
        self.follow(Subject::Probes, async move {
            let report = answer.await?;
            Ok(Some(ask.testimony(asked, &report.heard)))
        });
    }

    /// When the agent last received a packet from the node's tunnels, if it counts them.
    fn ask_for_tunnels(&self, asker: &mut Asker, addresses: &[SocketAddr], ask: &Ask) {
        let ends = self.ends.borrow();
        let Some(end) = ends.iter().find(|end| end.node == ask.node) else {
            return;
        };
        let (asked, limit) = (Instant::now(), ask.wait + WAY_BACK);
        let question = TunnelQuestion::about(end.tunnel_addresses.clone());
        let answer = asker.tunnels(&ask.witness, addresses, question, limit);
        let ask = ask.clone();
        self.follow(Subject::Tunnels, async move {
            let report = answer.await?;
            let testimony = ask.tunnel_testimony(asked, report.last_received());
            Ok(report.enabled.then_some(testimony))
        });
    }

    /// Has the monitor know what an answer says, once it is there; `None`: it is about something that
    /// is not done there.
    fn follow(
        &self,
        subject: Subject,
        answer: impl Future<Output = Result<Option<Option<Testimony>>, AskFailure>> + Send + 'static,
    ) {
        let (control, metrics) = (self.control.clone(), self.metrics.clone());
        tokio::spawn(async move {
            let outcome = match answer.await {
                Ok(None) => return,
                Ok(Some(None)) => AskOutcome::NotHeard,
                Ok(Some(Some(testimony))) => {
                    control.testify(testimony);
                    AskOutcome::Heard
                }
                Err(failure) => {
                    tracing::debug!(?subject, error = in_words(&failure), "no answer");
                    AskOutcome::NoAnswer
                }
            };
            metrics.count_ask(subject, outcome);
        });
    }
}
