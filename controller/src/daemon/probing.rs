//! Probing, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;

use probe_user::session::{ProbeSocket, SocketOptions};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{DaemonError, ProbedNodes, Settings};
use crate::consumers::{Consumer, Consumers, Interest};
use crate::metrics::Metrics;
use crate::monitor::driver::{self, Control, Outputs, Running};
use crate::monitor::{Ask, Board, Monitor, NodeSpec, Notice, Outlets, Reading, Record};

/// The monitor in its thread, and what comes from there.
pub(crate) struct Probing {
    pub(crate) control: Control,
    pub(crate) running: Running,
    pub(crate) notices: UnboundedReceiver<Notice>,
    pub(crate) asks: UnboundedReceiver<Ask>,
    pub(crate) consumers: Consumers,
    /// Everything that is configured is shown, so everything is probed, unless settings say otherwise.
    pub(crate) everything: Consumer,
}

impl Probing {
    /// Starts from `records`, with the nodes in `specs`.
    pub(crate) fn start(
        settings: &Settings,
        records: HashMap<String, Record>,
        specs: Vec<NodeSpec>,
        board: Arc<Board>,
        metrics: &Metrics,
    ) -> Result<Self, DaemonError> {
        let socket = ProbeSocket::bind(&SocketOptions::default())?;
        let waker = socket.waker();
        let consumers = Consumers::new(board.clone(), move || waker.wake());
        let everything = consumers.register("http");
        if settings.kubernetes.nodes == ProbedNodes::All {
            everything.set_interest(Interest::All);
        }
        let outlets = Outlets {
            board,
            consumers: consumers.clone(),
            round_trips: metrics.round_trips.clone(),
        };
        let seed = getrandom::u64().map_err(DaemonError::Random)?;
        let mut monitor = Monitor::new(settings.monitor(), seed, records, outlets);
        monitor.apply(Reading::take(), specs);
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
