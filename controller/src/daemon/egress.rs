//! Runs the planner: as a consumer of nodes' states it decides, has it recorded, and tells agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe_user::channel::WitnessReport;
use probe_user::keys::{ClusterKeys, NodeKey};
use probe_user::logging::in_words;
use tokio::sync::{mpsc, oneshot, watch};

use super::events::log_event;
use super::leading::{Channel, Happened, Leading};
use super::news::{Herald, News};
use super::renewing::Renewing;
use super::role::{Mandate, Role};
use crate::channel::{Answer, Failure, Outcome};
use crate::clock::Reading;
use crate::consumers::{Consumer, Interest};
use crate::failover::{
    Event, Gateway, NodeConfig, Observation, Output, Planner, PlannerSettings, Record,
};
use crate::metrics::FailoverMetrics;
use crate::monitor::driver::Control;
use crate::monitor::{Board, NodeSpec};

/// The nodes and gateways that are configured.
#[derive(Clone)]
pub(crate) struct Configured {
    pub(crate) specs: Vec<NodeSpec>,
    pub(crate) gateways: Vec<Gateway>,
    /// By which nodes' probe keys are made.
    pub(crate) keys: ClusterKeys,
}

/// What an egress task is asked for.
pub(crate) enum Request {
    /// This is configured from now on.
    Configure(Configured),
    /// Drains a node, or ends that; answered once it is recorded, or with `false` if there is no
    /// such node, and not at all by whoever does not decide.
    Drain {
        node: String,
        drained: bool,
        done: oneshot::Sender<bool>,
    },
}

/// Asks the egress task, and looks at what it knows. Clones are the same.
#[derive(Clone)]
pub(crate) struct EgressHandle {
    planner: Arc<Mutex<Planner>>,
    requests: mpsc::UnboundedSender<Request>,
    decided: watch::Receiver<bool>,
}

impl EgressHandle {
    /// What the planner knows; it decides nothing as long as this is held.
    pub(crate) fn planner(&self) -> MutexGuard<'_, Planner> {
        lock(&self.planner)
    }

    /// Asks for something. Nothing happens once the task has ended, and with it the controller.
    pub(crate) fn ask(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    /// Changes whenever something was decided or learnt; whether this controller decides.
    pub(crate) fn decided(&self) -> watch::Receiver<bool> {
        self.decided.clone()
    }

    /// Whether this controller decides.
    pub(crate) fn leads(&self) -> bool {
        *self.decided.borrow()
    }
}

fn lock(planner: &Mutex<Planner>) -> MutexGuard<'_, Planner> {
    // Whoever panics while deciding takes the whole process down.
    planner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task.
pub(crate) struct Egress {
    settings: PlannerSettings,
    planner: Arc<Mutex<Planner>>,
    requests: mpsc::UnboundedReceiver<Request>,
    roles: mpsc::UnboundedReceiver<Role>,
    nodes: Nodes,
    channel: Channel,
    configured: Option<Configured>,
    leading: Option<Leading>,
    decided: watch::Sender<bool>,
    audience: Audience,
}

/// Who is told of events.
pub(crate) struct Audience {
    pub(crate) metrics: FailoverMetrics,
    pub(crate) herald: Herald,
}

/// What is known of nodes, and what is asked of them by probes.
pub(crate) struct Nodes {
    pub(crate) board: Arc<Board>,
    pub(crate) consumer: Consumer,
    pub(crate) renewing: Renewing,
    pub(crate) probing: Control,
}

impl Egress {
    /// It decides nothing until it is given the role.
    pub(crate) fn new(
        settings: PlannerSettings,
        roles: mpsc::UnboundedReceiver<Role>,
        nodes: Nodes,
        channel: Channel,
        audience: impl FnOnce(Arc<Mutex<Planner>>) -> Audience,
    ) -> (Self, EgressHandle) {
        let planner = Arc::new(Mutex::new(Planner::new(settings)));
        let (sender, requests) = mpsc::unbounded_channel();
        let (decided, changes) = watch::channel(false);
        let handle = EgressHandle {
            planner: planner.clone(),
            requests: sender,
            decided: changes,
        };
        let egress = Self {
            settings,
            audience: audience(planner.clone()),
            planner,
            requests,
            roles,
            nodes,
            channel,
            configured: None,
            leading: None,
            decided,
        };
        (egress, handle)
    }

    /// Decides and tells, until nobody can ask for anything any more.
    pub(crate) async fn run(mut self) {
        loop {
            match self.next().await {
                Happened::Ended => return,
                Happened::Requested(request) => self.handle_request(request),
                Happened::Became(Role::Leader(mandate)) => self.lead(*mandate),
                Happened::Became(Role::Follower) => self.follow(),
                Happened::Answered(answer) => self.handle_answer(answer),
                Happened::Testified(answer) => self.handle_testimony(&answer),
                Happened::Keyed(answer) => {
                    self.handle_keys(answer);
                    // Nothing follows from it, and there may be thousands of them.
                    tokio::task::yield_now().await;
                    continue;
                }
                Happened::Recorded(version) => {
                    lock(&self.planner).handle_recorded(Reading::take(), version);
                }
                Happened::Renewed(echoed) => lock(&self.planner).handle_renewed(&echoed),
                Happened::Look => {}
            }
            self.handle_answers_at_hand();
            self.decide();
            // Whatever there is to decide, others have their turn: the term is to be renewed.
            tokio::task::yield_now().await;
        }
    }

    async fn next(&mut self) -> Happened {
        let wake = lock(&self.planner).next_wake();
        let leading = async {
            match &mut self.leading {
                Some(leading) => leading.next(wake).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            request = self.requests.recv() => request.map_or(Happened::Ended, Happened::Requested),
            Some(role) = self.roles.recv() => Happened::Became(role),
            happened = leading => happened,
            echoed = self.nodes.renewing.renewed() => Happened::Renewed(echoed),
            () = self.nodes.consumer.changed() => Happened::Look,
        }
    }

    /// Decides from now on, beginning with what was recorded last.
    fn lead(&mut self, mandate: Mandate) {
        let leading = Leading::begin(
            &self.channel,
            mandate.recorder,
            mandate.tenure,
            &mandate.record,
        );
        self.begin_anew(&mandate.record, Some(leading));
    }

    /// Decides no more, tells nobody anything, and extends no lease. What was decided is forgotten:
    /// whoever decides next goes by the record.
    fn follow(&mut self) {
        self.begin_anew(&Record::default(), None);
    }

    fn begin_anew(&mut self, record: &Record, leading: Option<Leading>) {
        let mut planner = Planner::new(self.settings);
        planner.restore(Reading::take(), record);
        *lock(&self.planner) = planner;
        if std::mem::replace(&mut self.leading, leading).is_some() {
            self.nodes.renewing.stop();
        }
        if let Some(configured) = self.configured.clone() {
            self.configure(configured);
        }
    }

    fn configure(&mut self, configured: Configured) {
        let node = |spec: &NodeSpec| {
            let (labels, addresses) = (spec.labels.clone(), spec.addresses.clone());
            (spec.name.clone(), NodeConfig { labels, addresses })
        };
        let nodes: BTreeMap<_, _> = configured.specs.iter().map(node).collect();
        let mut planner = lock(&self.planner);
        planner.handle_gateways(Reading::take(), configured.gateways.clone());
        planner.handle_nodes(Reading::take(), nodes);
        let names: Vec<String> = planner.interesting_nodes().into_iter().collect();
        drop(planner);
        let interest = Interest::Nodes(names.into_iter().collect());
        self.nodes.consumer.set_interest(interest);
        if let Some(leading) = &mut self.leading {
            leading.told.follow(configured);
        }
    }

    fn handle_request(&mut self, request: Request) {
        match request {
            Request::Configure(configured) => {
                self.configured = Some(configured.clone());
                self.configure(configured);
            }
            Request::Drain {
                node,
                drained,
                done,
            } => {
                // Whoever asks learns by `done` that nobody answers.
                let Some(leading) = &mut self.leading else {
                    return;
                };
                let mut planner = lock(&self.planner);
                let version = match drained {
                    true => planner.drain(&node),
                    false => planner.undrain(&node),
                };
                match version {
                    Some(version) => leading.waiting.push((version, done)),
                    // The request may be gone.
                    None => drop(done.send(false)),
                }
            }
        }
    }

    /// Many answers together are worth one decision.
    fn handle_answers_at_hand(&mut self) {
        while let Some(answer) = self.leading.as_mut().and_then(Leading::answer_at_hand) {
            self.handle_answer(answer);
        }
    }

    fn handle_answer(&mut self, answer: Answer) {
        if let Some(leading) = &mut self.leading {
            leading.told.agents.handle_answer(&answer);
        }
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
                if let Some(leading) = &mut self.leading {
                    leading.told.witnesses.note_keys(node, &keys);
                }
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

    /// Decides by the present states, if that is this controller's to do.
    fn decide(&mut self) {
        let now = Reading::take();
        if self
            .leading
            .as_ref()
            .is_some_and(|leading| leading.tenure.is_over(now.instant))
        {
            tracing::warn!("the term is over: nothing is decided any more");
            self.follow();
        }
        self.observe(now);
        let mut outputs = Vec::new();
        // Before that every node and gateway would seem to be gone.
        let is_configured = self.configured.is_some();
        if let Some(leading) = self.leading.as_mut().filter(|_| is_configured) {
            let mut planner = lock(&self.planner);
            planner.poll(now);
            while let Some(output) = planner.poll_output() {
                outputs.push(output);
            }
            leading.told.keys.set_term(planner.term());
            leading.answer_waiting(planner.recorded_version());
        }
        for output in outputs {
            self.act(output);
        }
        self.decided.send_replace(self.leading.is_some());
    }

    /// Takes in the present states.
    fn observe(&mut self, now: Reading) {
        let mut planner = lock(&self.planner);
        for sighting in self.nodes.board.sightings() {
            if let Some(Leading { told, .. }) = &mut self.leading {
                told.agents.observe(&sighting);
                told.witnesses.observe(&sighting);
                told.keys.observe(&sighting);
            }
            let observation = Observation {
                state: sighting.state,
                since: sighting.since,
                heard: sighting.heard,
                path_down: sighting.only_others,
            };
            planner.handle_state(now, &sighting.node, observation);
        }
    }

    fn act(&mut self, output: Output) {
        let Some(Leading {
            recorder,
            tenure,
            told,
            ..
        }) = &mut self.leading
        else {
            return;
        };
        match output {
            Output::Record(record) => recorder.record(record),
            Output::Apply { node, desired } => {
                if let Err(error) = told.agents.tell(&node, desired) {
                    lock(&self.planner).handle_failure(&node, &error.to_string());
                }
            }
            Output::Witness { node, duty } => told.witnesses.tell(node, duty),
            Output::Renew(renewals) => self.nodes.renewing.renew(&renewals, tenure.clone()),
            Output::Event(event) => self.audience.tell(event),
        }
    }
}

impl Audience {
    fn tell(&self, event: Event) {
        log_event(&event);
        self.metrics.count(&event);
        self.herald.tell(|| News::Egress(event));
    }
}
