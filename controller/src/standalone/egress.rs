//! Runs the planner: as a consumer of nodes' states it decides, has it recorded, and tells agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe_user::channel::WitnessReport;
use probe_user::keys::{ClusterKeys, NodeKey};
use probe_user::logging::in_words;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::agents::Agents;
use super::keeper::Recorder;
use super::keying::Keying;
use super::renewing::Renewing;
use super::witnessing::Witnessing;
use crate::channel::{Answer, Failure, Outcome};
use crate::clock::Reading;
use crate::consumers::{Consumer, Interest};
use crate::failover::{Event, Gateway, NodeConfig, Observation, Output, Planner};
use crate::metrics::FailoverMetrics;
use crate::monitor::driver::{Control, Echoed};
use crate::monitor::{Board, NodeSpec};

/// What an egress task is asked for.
pub(super) enum Request {
    /// These nodes and gateways are configured from now on.
    Configure {
        specs: Vec<NodeSpec>,
        gateways: Vec<Gateway>,
        /// By which nodes' probe keys are made.
        keys: ClusterKeys,
    },
    /// Drains a node, or ends that; answered once it is recorded, or with `false` if there is no
    /// such node.
    Drain {
        node: String,
        drained: bool,
        done: oneshot::Sender<bool>,
    },
}

/// Asks the egress task, and looks at what it knows. Clones are the same.
#[derive(Clone)]
pub(super) struct EgressHandle {
    planner: Arc<Mutex<Planner>>,
    requests: mpsc::UnboundedSender<Request>,
}

impl EgressHandle {
    /// What the planner knows; it decides nothing as long as this is held.
    pub(super) fn planner(&self) -> MutexGuard<'_, Planner> {
        lock(&self.planner)
    }

    /// Asks for something. Nothing happens once the task has ended, and with it the controller.
    pub(super) fn ask(&self, request: Request) {
        let _ = self.requests.send(request);
    }
}

fn lock(planner: &Mutex<Planner>) -> MutexGuard<'_, Planner> {
    // Whoever panics while deciding takes the whole process down.
    planner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task.
pub(super) struct Egress {
    planner: Arc<Mutex<Planner>>,
    requests: mpsc::UnboundedReceiver<Request>,
    nodes: Nodes,
    recorder: Recorder,
    told: Told,
    metrics: FailoverMetrics,
    /// Who waits for which version of the record.
    waiting: Vec<(u64, oneshot::Sender<bool>)>,
}

/// What is known of nodes, and what is asked of them by probes.
pub(super) struct Nodes {
    pub(super) board: Arc<Board>,
    pub(super) consumer: Consumer,
    pub(super) renewing: Renewing,
    pub(super) probing: Control,
}

/// Who is told what.
pub(super) struct Told {
    /// What their nodes shall hold.
    pub(super) agents: Agents,
    /// Their duty as witnesses.
    pub(super) witnesses: Witnessing,
    /// Their nodes' probe keys.
    pub(super) keys: Keying,
}

/// What happened.
enum Happened {
    Requested(Request),
    Answered(Answer),
    Testified(Answer<WitnessReport>),
    Keyed(Answer<Vec<NodeKey>>),
    Recorded(u64),
    Renewed(Echoed),
    /// A node's state changed, or it is time.
    Look,
    /// Nobody can ask for anything any more.
    Ended,
}

impl Egress {
    pub(super) fn new(
        planner: Planner,
        nodes: Nodes,
        recorder: Recorder,
        told: Told,
        metrics: impl FnOnce(Arc<Mutex<Planner>>) -> FailoverMetrics,
    ) -> (Self, EgressHandle) {
        let planner = Arc::new(Mutex::new(planner));
        let (sender, requests) = mpsc::unbounded_channel();
        let handle = EgressHandle {
            planner: planner.clone(),
            requests: sender,
        };
        let egress = Self {
            metrics: metrics(planner.clone()),
            planner,
            requests,
            nodes,
            recorder,
            told,
            waiting: Vec::new(),
        };
        (egress, handle)
    }

    /// Decides and tells, until nobody can ask for anything any more.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Happened::Ended => return,
                Happened::Requested(request) => self.handle_request(request),
                Happened::Answered(answer) => self.handle_answer(answer),
                Happened::Testified(answer) => self.handle_testimony(&answer),
                Happened::Keyed(answer) => self.handle_keys(answer),
                Happened::Recorded(version) => {
                    lock(&self.planner).handle_recorded(Reading::take(), version);
                }
                Happened::Renewed(echoed) => lock(&self.planner).handle_renewed(&echoed),
                Happened::Look => {}
            }
            self.handle_answers_at_hand();
            self.decide();
        }
    }

    async fn next(&mut self) -> Happened {
        let wake = lock(&self.planner).next_wake();
        tokio::select! {
            request = self.requests.recv() => request.map_or(Happened::Ended, Happened::Requested),
            Some(answer) = self.told.agents.answer() => Happened::Answered(answer),
            Some(answer) = self.told.witnesses.answer() => Happened::Testified(answer),
            Some(answer) = self.told.keys.answer() => Happened::Keyed(answer),
            Some(version) = self.recorder.recorded() => Happened::Recorded(version),
            echoed = self.nodes.renewing.renewed() => Happened::Renewed(echoed),
            () = self.nodes.consumer.changed() => Happened::Look,
            () = sleep_until(wake) => Happened::Look,
        }
    }

    fn handle_request(&mut self, request: Request) {
        let mut planner = lock(&self.planner);
        match request {
            Request::Configure {
                specs,
                gateways,
                keys,
            } => {
                let node = |spec: &NodeSpec| {
                    let (labels, addresses) = (spec.labels.clone(), spec.addresses.clone());
                    (spec.name.clone(), NodeConfig { labels, addresses })
                };
                let nodes: BTreeMap<_, _> = specs.iter().map(node).collect();
                planner.handle_gateways(Reading::take(), gateways);
                planner.handle_nodes(Reading::take(), nodes);
                let names: Vec<String> = planner.interesting_nodes().into_iter().collect();
                self.nodes
                    .consumer
                    .set_interest(Interest::Nodes(names.into_iter().collect()));
                drop(planner);
                self.told.keys.follow(&specs);
                self.told.witnesses.follow(&specs, keys);
                self.told.agents.follow(specs);
            }
            Request::Drain {
                node,
                drained,
                done,
            } => {
                let version = match drained {
                    true => planner.drain(&node),
                    false => planner.undrain(&node),
                };
                match version {
                    Some(version) => self.waiting.push((version, done)),
                    // The request may be gone.
                    None => drop(done.send(false)),
                }
            }
        }
    }

    /// Many answers together are worth one decision.
    fn handle_answers_at_hand(&mut self) {
        while let Some(answer) = self.told.agents.answer_at_hand() {
            self.handle_answer(answer);
        }
    }

    fn handle_answer(&mut self, answer: Answer) {
        self.told.agents.handle_answer(&answer);
        let mut planner = lock(&self.planner);
        match answer.outcome {
            Outcome::Done(report) => {
                planner.handle_not_fenced(&answer.node, &report.not_fenced);
                planner.handle_report(
                    Reading::take(),
                    &answer.node,
                    report.applied_epoch,
                    report.witness_version,
                    &report.addresses,
                );
            }
            Outcome::Failed(failure) => {
                let error = in_words(&failure);
                tracing::debug!(node = &*answer.node, error, "the agent was not told");
                planner.handle_failure(&answer.node, &error);
            }
        }
    }

    fn handle_testimony(&self, answer: &Answer<WitnessReport>) {
        let mut planner = lock(&self.planner);
        let node = &*answer.node;
        match &answer.outcome {
            Outcome::Done(report) => {
                planner.handle_testimony(Reading::take().instant, node, answer.version, report);
            }
            Outcome::Failed(failure) => {
                let error = in_words(failure);
                tracing::debug!(node, error, "the witness was not told");
                if let Failure::Stale { .. } = failure {
                    planner.handle_refused_duty(node);
                }
            }
        }
    }

    /// Whoever probes the node may use the keys that it has confirmed.
    fn handle_keys(&mut self, answer: Answer<Vec<NodeKey>>) {
        let node = &*answer.node;
        let held = match answer.outcome {
            Outcome::Done(keys) => {
                self.told.witnesses.note_keys(node, &keys);
                Ok(keys)
            }
            Outcome::Failed(failure) => {
                let error = in_words(&failure);
                tracing::debug!(node, error, "the node has not got its keys");
                Err(error)
            }
        };
        self.nodes.probing.note_keys(node, held);
    }

    /// Decides by the present states.
    fn decide(&mut self) {
        let now = Reading::take();
        let mut planner = lock(&self.planner);
        for sighting in self.nodes.board.sightings() {
            self.told.agents.observe(&sighting);
            self.told.witnesses.observe(&sighting);
            self.told.keys.observe(&sighting);
            let observation = Observation {
                state: sighting.state,
                since: sighting.since,
                heard: sighting.heard,
                path_down: sighting.path_down,
            };
            planner.handle_state(now, &sighting.node, observation);
        }
        planner.poll(now);
        let mut outputs = Vec::new();
        while let Some(output) = planner.poll_output() {
            outputs.push(output);
        }
        let recorded = planner.recorded_version();
        self.told.keys.set_term(planner.term());
        drop(planner);
        for output in outputs {
            self.act(output);
        }
        let (done, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(version, _)| *version <= recorded);
        self.waiting = waiting;
        let done: Vec<(u64, oneshot::Sender<bool>)> = done;
        for (_, done) in done {
            // The request may be gone.
            let _ = done.send(true);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Record(record) => self.recorder.record(record),
            Output::Apply { node, desired } => {
                if let Err(error) = self.told.agents.tell(&node, desired) {
                    lock(&self.planner).handle_failure(&node, &error.to_string());
                }
            }
            Output::Witness { node, duty } => self.told.witnesses.tell(node, duty),
            Output::Renew(renewals) => self.nodes.renewing.renew(&renewals),
            Output::Event(event) => {
                log_event(&event);
                self.metrics.count(&event);
            }
        }
    }
}

async fn sleep_until(wake: Option<std::time::Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(Instant::from_std(at)).await,
        None => std::future::pending().await,
    }
}

fn log_event(event: &Event) {
    match event {
        Event::Moved {
            gateway,
            address,
            from,
            to,
            cause,
        } => tracing::info!(
            gateway,
            %address,
            from = from.as_deref(),
            to = to.as_deref(),
            cause = cause.map(tracing::field::display),
            "egress IP assigned"
        ),
        Event::Aborted {
            gateway,
            address,
            node,
        } => tracing::info!(
            gateway,
            %address,
            node = &**node,
            "egress IP stays: its owner is fit again before anybody else could take over"
        ),
        Event::Completed {
            gateway,
            address,
            node,
            phases,
        } => {
            let words = phases.iter().map(|(phase, time)| {
                format!("{} {:.1} ms", phase.as_str(), time.as_secs_f64() * 1e3)
            });
            let steps = words.collect::<Vec<_>>().join(", ");
            tracing::info!(gateway, %address, node = &**node, steps, "egress IP announced");
        }
        Event::Held { lost, of } => tracing::error!(
            lost,
            of,
            "too many nodes were lost at once: the controller suspects itself, moves are held"
        ),
        Event::Resumed => tracing::warn!("moves go on"),
        Event::Damped { node, hold } => tracing::warn!(
            node = &**node,
            hold = %probe_user::settings::HumanDuration(*hold),
            "the node falls too often: it gets no address until it has been AVAILABLE for long enough"
        ),
        Event::Released { node } => {
            tracing::info!(node = &**node, "the node may get addresses again");
        }
    }
}
