//! Probing, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;

use probe_user::session::{ProbeSocket, SocketOptions};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::RunError;
use super::reload::Loaded;
use crate::consumers::{Consumer, Consumers, Interest};
use crate::metrics::Metrics;
use crate::monitor::driver::{self, Control, Outputs, Running};
use crate::monitor::{Ask, Board, Monitor, Notice, Outlets, Reading, Record};

/// The monitor in its thread, and what comes from there.
pub(super) struct Probing {
    pub(super) control: Control,
    pub(super) running: Running,
    pub(super) notices: UnboundedReceiver<Notice>,
    pub(super) asks: UnboundedReceiver<Ask>,
    pub(super) consumers: Consumers,
    /// Everything that is configured is shown, so everything is probed.
    pub(super) everything: Consumer,
}

impl Probing {
    /// Starts from `records`, by what is configured.
    pub(super) fn start(
        loaded: &Loaded,
        records: HashMap<String, Record>,
        board: Arc<Board>,
        metrics: &Metrics,
    ) -> Result<Self, RunError> {
        let socket = ProbeSocket::bind(&SocketOptions::default())?;
        let waker = socket.waker();
        let consumers = Consumers::new(board.clone(), move || waker.wake());
        let everything = consumers.register("http");
        everything.set_interest(Interest::All);
        let outlets = Outlets {
            board,
            consumers: consumers.clone(),
            round_trips: metrics.round_trips.clone(),
        };
        let seed = getrandom::u64().map_err(RunError::Random)?;
        let mut monitor = Monitor::new(loaded.settings.monitor(), seed, records, outlets);
        monitor.apply(Reading::take(), loaded.resolved.specs.clone());
        let (notice, notices) = mpsc::unbounded_channel();
        let (ask, asks) = mpsc::unbounded_channel();
        let outputs = Outputs {
            notices: notice,
            asks: ask,
        };
        let (control, running) = driver::spawn(monitor, socket, outputs)?;
        Ok(Self {
            control,
            running,
            notices,
            asks,
            consumers,
            everything,
        })
    }
}
