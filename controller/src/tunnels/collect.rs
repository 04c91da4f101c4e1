//! Asks nodes what they have counted.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use probe_user::channel::Security;
use probe_user::logging::in_words;
use probe_user::tunnels::{Limits, Named, TunnelQuestion, TunnelReport};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::{Said, Summary, Survey};
use crate::channel::{AskFailure, Asker};

/// How long a node has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same where its answer is not what somebody has asked for.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);

/// Between two surveys that nobody has asked for.
const PAUSE: Duration = Duration::from_secs(10);

/// A node, and where its tunnels end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Its name.
    pub node: String,
    /// Where its agent is.
    pub addresses: Vec<IpAddr>,
    /// Where its tunnels end.
    pub tunnel_addresses: Vec<IpAddr>,
}

impl TunnelEnd {
    fn named(&self) -> Named {
        Named {
            node: self.node.clone(),
            addresses: self.tunnel_addresses.clone(),
        }
    }
}

/// Asks all nodes at once, whenever somebody wants to know. Clones share the connections.
#[derive(Clone)]
pub struct Collector {
    /// `None`: there is no control channel.
    asker: Option<Arc<Mutex<Asker>>>,
    /// Where agents listen.
    port: u16,
    nodes: watch::Receiver<Vec<TunnelEnd>>,
    /// What came of the last survey.
    last: Arc<Mutex<Option<Summary>>>,
    /// A node is silent.
    silence: Arc<Notify>,
}

impl Collector {
    /// Agents listen on `port`; without `security` none is asked anything. The nodes come out of
    /// `nodes`.
    pub fn new(
        security: Option<Security>,
        port: u16,
        nodes: watch::Receiver<Vec<TunnelEnd>>,
    ) -> Self {
        let asker = security.map(|security| Arc::new(Mutex::new(Asker::new(security))));
        Self {
            asker,
            port,
            nodes,
            last: Arc::default(),
            silence: Arc::default(),
        }
    }

    /// What the nodes that are there said when they were last asked.
    pub fn summary(&self) -> Option<Summary> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = last.clone()?;
        Some(summary.among(&self.nodes.borrow()))
    }

    /// A node has fallen silent: what its tunnels did is of interest.
    pub fn note_silence(&self) {
        self.silence.notify_one();
    }

    /// Whether this is the name of a node that counts tunnels, and says so at once.
    pub async fn counts(&self, node: &str) -> bool {
        let ends = self.nodes.borrow().clone();
        let asked = ends.iter().find(|end| end.node == node).map(|end| {
            let named = ends.iter().map(TunnelEnd::named).collect();
            self.ask(end, named, SHORT_PATIENCE)
        });
        match asked.flatten() {
            Some(answer) => answer.await.is_ok_and(|report| report.enabled),
            None => false,
        }
    }

    /// What the nodes say now, after two seconds at most, and tells them each other's names.
    pub async fn survey(&self) -> Survey {
        let ends = self.nodes.borrow().clone();
        // All are told the same, thousands of names in a large cluster.
        let all: Arc<[Named]> = ends.iter().map(TunnelEnd::named).collect();
        let said = ends.iter().zip(&*all).map(|(end, node)| {
            let answer = self.ask(end, all.clone(), PATIENCE);
            async move {
                Said {
                    node: node.clone(),
                    report: match answer {
                        Some(answer) => answer.await.map_err(|failure| in_words(&failure)),
                        None => Err("there is no control channel".to_owned()),
                    },
                }
            }
        });
        let asked = Instant::now();
        let survey = Survey::new(join_all(said).await);
        if survey.is_of_use() {
            let matrix = survey.matrix(SystemTime::now(), Limits::default());
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(Summary::new(asked, &matrix));
        }
        survey
    }

    /// Asks the nodes, and tells them each other's names, whenever these have changed or a node has
    /// fallen silent, for as long as they can change.
    pub async fn run(mut self) {
        while self.asker.is_some() {
            tokio::select! {
                changed = self.nodes.changed() => match changed {
                    Ok(()) => {}
                    Err(_) => return,
                },
                () = self.silence.notified() => {}
            }
            self.survey().await;
            sleep(PAUSE).await;
        }
    }

    fn ask(
        &self,
        end: &TunnelEnd,
        nodes: Arc<[Named]>,
        limit: Duration,
    ) -> Option<impl Future<Output = Result<TunnelReport, AskFailure>> + use<>> {
        let asker = self.asker.as_ref()?;
        let at = |address: &IpAddr| SocketAddr::new(*address, self.port);
        let addresses: Vec<_> = end.addresses.iter().map(at).collect();
        let mut asker = asker.lock().unwrap_or_else(PoisonError::into_inner);
        let question = TunnelQuestion::among(nodes);
        Some(asker.tunnels(&end.node, &addresses, question, limit))
    }
}
