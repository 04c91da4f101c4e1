//! Reports what the monitor notices: to the log, the metrics, the state keeper and whoever watches.

use std::sync::Arc;
use std::time::Duration;

use probe_user::settings::HumanDuration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, broadcast, watch};

use super::news::{Herald, News};
use crate::api::{State, Transition, milliseconds};
use crate::metrics::Metrics;
use crate::monitor::Notice;
use crate::tunnels::Collector;

/// Tells whoever keeps nodes' states that there is something to record. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unrecorded(Arc<Notify>);

impl Unrecorded {
    pub(crate) fn note(&self) {
        self.0.notify_one();
    }

    /// Waits for it.
    pub(crate) async fn noted(&self) {
        self.0.notified().await;
    }
}

/// Reports notices.
pub(crate) struct Reporter {
    pub(crate) metrics: Metrics,
    pub(crate) transitions: broadcast::Sender<Transition>,
    pub(crate) tunnels: Collector,
    pub(crate) unrecorded: Unrecorded,
    pub(crate) herald: Herald,
    pub(crate) ready: watch::Sender<Result<(), String>>,
    /// When every node is decided on at the latest.
    pub(crate) ready_after: Duration,
}

impl Reporter {
    /// Reports until there is nobody left who notices anything.
    pub(crate) async fn run(self, mut notices: UnboundedReceiver<Notice>) {
        let mut ready = std::pin::pin!(tokio::time::sleep(self.ready_after));
        let mut waiting = true;
        loop {
            tokio::select! {
                notice = notices.recv() => match notice {
                    Some(notice) => self.report(notice),
                    None => return,
                },
                () = &mut ready, if waiting => {
                    waiting = false;
                    self.ready.send_modify(|ready| *ready = Ok(()));
                }
            }
        }
    }

    fn report(&self, notice: Notice) {
        self.herald.tell(|| News::Node(notice.clone()));
        match notice {
            Notice::Transition(transition) => {
                log_transition(&transition);
                self.metrics
                    .count_transition(transition.from, transition.to);
                self.unrecorded.note();
                if transition.to == State::Unreachable {
                    self.tunnels.note_silence();
                }
                // Fails if nobody watches.
                let _ = self.transitions.send(transition);
            }
            Notice::Announced { node, lasted } => {
                tracing::warn!(
                    node,
                    state = "UNAVAILABLE",
                    lasted = %human(milliseconds(lasted)),
                    "the node's agent stays silent"
                );
            }
            Notice::PathDown { node, silence, by } => {
                self.unrecorded.note();
                tracing::warn!(
                    node,
                    silence = %HumanDuration(silence),
                    by = by.join(", "),
                    "ControllerPathDown: only others hear the node, which keeps its state"
                );
            }
            Notice::OnlyTunnels {
                node,
                silence,
                by,
                left,
            } => {
                self.unrecorded.note();
                tracing::warn!(
                    node,
                    silence = %HumanDuration(silence),
                    by,
                    "TunnelsOnly: nobody hears the node, but its tunnels are busy; it keeps its \
                     state for {} more at most",
                    HumanDuration(left)
                );
            }
            Notice::PathBack { node, silence } => {
                self.unrecorded.note();
                tracing::warn!(
                    node,
                    silence = %HumanDuration(silence),
                    "the controller hears the node again"
                );
            }
            Notice::Reincarnated { node, from, to } => {
                self.unrecorded.note();
                tracing::warn!(
                    node,
                    from = format_args!("{from:016x}"),
                    to = format_args!("{to:016x}"),
                    "the node's kernel began anew"
                );
            }
            Notice::NotProbed { node, error } => {
                tracing::error!(node, error = %error, "the node is not probed as configured");
            }
            Notice::Settled => {
                self.ready.send_modify(|ready| *ready = Ok(()));
            }
        }
    }
}

fn log_transition(transition: &Transition) {
    tracing::info!(
        node = transition.node,
        from = %transition.from,
        to = %transition.to,
        reason = %transition.reason,
        silence = %human(transition.silence_ms),
        last_reply = transition.last_reply.map(tracing::field::display),
        last_tunnel_packet = transition.last_tunnel_packet.map(tracing::field::display),
        lag = %human(transition.lag_ms),
        "transition"
    );
}

/// A length of time for people: nobody reads nanoseconds.
fn human(milliseconds: f64) -> HumanDuration {
    HumanDuration(Duration::from_micros((milliseconds * 1e3) as u64))
}
