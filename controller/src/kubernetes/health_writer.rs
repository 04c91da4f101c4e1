//! Writes NodeHealth objects: one for each node, on changes only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use probe_user::logging::in_words;
use serde_json::json;

use super::node_status::{alike, status};
use super::patience::{ClientError, patiently};
use super::resources::{NodeHealth, NodeHealthSpec, NodeHealthStatus};
use super::world::Facts;
use super::writers::{MANAGER, Writers};
use crate::clock::Reading;

/// Changes gather for so long.
const GATHER: Duration = Duration::from_millis(200);
/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// So many requests are under way at once.
const AT_ONCE: usize = 16;

pub(super) struct HealthWriter {
    common: Writers,
    health: Api<NodeHealth>,
    /// The objects as they were written last, by node; `None`: not known in this term.
    written: Option<BTreeMap<String, NodeHealthStatus>>,
}

/// What is to be done about one object.
enum Task {
    Create(String),
    Write(String, Box<NodeHealthStatus>),
    Delete(String),
}

/// What became of it.
enum Done {
    /// The object is there, and says this.
    Says(String, Box<NodeHealthStatus>),
    /// It is not there.
    Gone(String),
}

impl HealthWriter {
    pub(super) fn new(common: Writers) -> Self {
        Self {
            health: Api::all(common.client.clone()),
            common,
            written: None,
        }
    }

    /// For ever.
    pub(super) async fn run(mut self) {
        let mut decided = self.common.egress.decided();
        loop {
            tokio::select! {
                () = self.common.unrecorded.noted() => {}
                Ok(()) = decided.changed() => {}
                Ok(()) = self.common.facts.changed() => {}
            }
            tokio::time::sleep(GATHER).await;
            decided.mark_unchanged();
            while let Err(error) = self.write().await {
                tracing::warn!(error = in_words(&error), "nodes' health is not up to date");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Has everything written that has changed. An error leaves the rest for the next time.
    async fn write(&mut self) -> Result<(), ClientError> {
        if !self.common.egress.leads() {
            self.written = None;
            return Ok(());
        }
        if self.written.is_none() {
            self.written = Some(self.read().await?);
        }
        loop {
            let written = self.written.get_or_insert_default();
            let facts = self.common.facts.borrow().clone();
            let tasks = tasks(&self.common, &facts, written);
            if tasks.is_empty() {
                return Ok(());
            }
            let outcomes = stream::iter(tasks)
                .map(|task| perform(&self.health, &facts, task))
                .buffer_unordered(AT_ONCE);
            let outcomes: Vec<_> = outcomes.collect().await;
            for outcome in outcomes {
                match outcome? {
                    Done::Says(name, status) => drop(written.insert(name, *status)),
                    Done::Gone(name) => drop(written.remove(&name)),
                }
            }
        }
    }

    async fn read(&self) -> Result<BTreeMap<String, NodeHealthStatus>, ClientError> {
        let params = ListParams::default();
        let list = patiently("list nodehealths", self.health.list(&params)).await?;
        let status = |it: NodeHealth| (it.name_any(), it.status.unwrap_or_default());
        Ok(list.items.into_iter().map(status).collect())
    }
}

/// What is to be done so that every node's object says what is known of it.
fn tasks(
    common: &Writers,
    facts: &Facts,
    written: &BTreeMap<String, NodeHealthStatus>,
) -> Vec<Task> {
    let now = Reading::take();
    let warnings = common.egress.planner().warnings();
    let views = common.board.nodes();
    let known = views
        .iter()
        .filter(|view| facts.nodes.contains_key(&view.name));
    let mut tasks = Vec::new();
    for view in known {
        let name = || view.name.clone();
        let Some(before) = written.get(&view.name) else {
            tasks.push(Task::Create(name()));
            continue;
        };
        let warnings = warnings
            .get(view.name.as_str())
            .map_or(&[][..], Vec::as_slice);
        let status = status(view, warnings, &before.conditions, now);
        if !alike(&status, before) {
            tasks.push(Task::Write(name(), Box::new(status)));
        }
    }
    let gone = written
        .keys()
        .filter(|name| !facts.nodes.contains_key(*name));
    tasks.extend(gone.cloned().map(Task::Delete));
    tasks
}

async fn perform(
    health: &Api<NodeHealth>,
    facts: &Arc<Facts>,
    task: Task,
) -> Result<Done, ClientError> {
    match task {
        Task::Create(name) => {
            let object = empty(&name, facts);
            let params = PostParams::default();
            let create = health.create(&params, &object);
            match patiently("create a nodehealth", create).await {
                Err(error) if !error.is_conflict() => Err(error),
                // What it says is written next.
                Ok(_) | Err(_) => Ok(Done::Says(name, Box::default())),
            }
        }
        Task::Write(name, status) => {
            let patch = json!({
                "apiVersion": NodeHealth::api_version(&()),
                "kind": NodeHealth::kind(&()),
                "status": status,
            });
            let params = PatchParams::apply(MANAGER).force();
            let patch = Patch::Apply(&patch);
            let request = health.patch_status(&name, &params, &patch);
            match patiently("patch a nodehealth's status", request).await {
                Ok(_) => Ok(Done::Says(name, status)),
                Err(error) if error.is_not_found() => Ok(Done::Gone(name)),
                Err(error) => Err(error),
            }
        }
        Task::Delete(name) => {
            let params = DeleteParams::default();
            match patiently("delete a nodehealth", health.delete(&name, &params)).await {
                Err(error) if !error.is_not_found() => Err(error),
                Ok(_) | Err(_) => Ok(Done::Gone(name)),
            }
        }
    }
}

/// An object that says nothing yet, and goes when its node does.
fn empty(name: &str, facts: &Facts) -> NodeHealth {
    let mut object = NodeHealth::new(name, NodeHealthSpec {});
    let owner = facts.nodes.get(name).map(|node| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.uid.clone(),
        ..OwnerReference::default()
    });
    object.metadata.owner_references = owner.map(|owner| vec![owner]);
    object
}
