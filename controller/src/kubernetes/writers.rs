//! Writes what was decided and learnt, as long as this controller leads, and only what has changed.

use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::announcer::Announcer;
use super::gateway_writer::GatewayWriter;
use super::health_writer::HealthWriter;
use super::world::Facts;
use crate::daemon::{EgressHandle, News, Unrecorded};
use crate::monitor::Board;

/// Who appears as the writer of statuses and the source of Events.
pub(super) const MANAGER: &str = "pulsepath-controller";

/// What all that write need.
#[derive(Clone)]
pub(super) struct Writers {
    pub(super) client: Client,
    pub(super) identity: String,
    pub(super) board: Arc<Board>,
    pub(super) egress: EgressHandle,
    pub(super) facts: watch::Receiver<Arc<Facts>>,
    pub(super) unrecorded: Unrecorded,
}

impl Writers {
    /// Starts them; `news` is what Events are made of.
    pub(super) fn spawn(self, news: UnboundedReceiver<News>, tasks: &mut JoinSet<()>) {
        tasks.spawn(GatewayWriter::new(self.clone()).run());
        tasks.spawn(HealthWriter::new(self.clone()).run());
        tasks.spawn(Announcer::new(self).run(news));
    }
}
