//! Writes the statuses of EgressGateways.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use probe_user::logging::in_words;
use serde_json::json;

use super::gateway_status::{Known, status};
use super::patience::{ClientError, patiently};
use super::resources::{EgressGateway, EgressGatewayStatus};
use super::world::{Facts, GatewayObject};
use super::writers::{MANAGER, Writers};
use crate::api;

/// Changes gather for so long.
const GATHER: Duration = Duration::from_millis(100);
/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct GatewayWriter {
    common: Writers,
    gateways: Api<EgressGateway>,
    /// The statuses as they were written last, by names; `None`: not known in this term.
    written: Option<BTreeMap<String, Written>>,
}

/// A status that an object has.
#[derive(Clone, PartialEq)]
struct Written {
    /// The object's: one that is deleted and made anew has none of its predecessor's status, even if
    /// nobody was there to hear of it.
    uid: String,
    status: EgressGatewayStatus,
}

impl GatewayWriter {
    pub(super) fn new(common: Writers) -> Self {
        Self {
            gateways: Api::all(common.client.clone()),
            common,
            written: None,
        }
    }

    /// For ever.
    pub(super) async fn run(mut self) {
        let mut decided = self.common.egress.decided();
        loop {
            tokio::select! {
                Ok(()) = decided.changed() => {}
                Ok(()) = self.common.facts.changed() => {}
                // Both end with the process.
                else => return,
            }
            tokio::time::sleep(GATHER).await;
            decided.mark_unchanged();
            while let Err(error) = self.write().await {
                tracing::warn!(
                    error = in_words(&error),
                    "statuses of gateways are not up to date"
                );
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn write(&mut self) -> Result<(), ClientError> {
        if !self.common.egress.leads() {
            self.written = None;
            return Ok(());
        }
        let mut written = match self.written.take() {
            Some(written) => written,
            None => self.read().await?,
        };
        let wanted = self.wanted(&written);
        written.retain(|name, _| wanted.contains_key(name));
        for (name, wanted) in wanted {
            if written.get(&name) == Some(&wanted) {
                continue;
            }
            // Whatever becomes of it, what is there is not known any more.
            written.remove(&name);
            match self.patch(&name, &wanted.status).await {
                Ok(()) => drop(written.insert(name, wanted)),
                // It was deleted, which will be heard of.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    self.written = Some(written);
                    return Err(error);
                }
            }
        }
        self.written = Some(written);
        Ok(())
    }

    /// What was written in an earlier term.
    async fn read(&self) -> Result<BTreeMap<String, Written>, ClientError> {
        let params = ListParams::default();
        let list = patiently("list egressgateways", self.gateways.list(&params)).await?;
        let written = |it: EgressGateway| {
            let (name, uid) = (it.name_any(), it.uid()?);
            let status = it.status?;
            Some((name, Written { uid, status }))
        };
        Ok(list.items.into_iter().filter_map(written).collect())
    }

    /// The statuses as they should be; those of gateways about which something is being recorded are
    /// as they were.
    fn wanted(&self, written: &BTreeMap<String, Written>) -> BTreeMap<String, Written> {
        let view = self.common.egress.planner().view(Instant::now());
        if view.failover.recording {
            return written.clone();
        }
        let facts: &Facts = &self.common.facts.borrow();
        let now = SystemTime::now();
        let status = |(name, object): (&String, &GatewayObject)| {
            let named = |gateway: &&api::Gateway| gateway.name == *name;
            let known = Known {
                object,
                refusal: facts.refused.get(name),
                gateway: facts.accepted.get(name),
                view: view.gateways.iter().find(named),
            };
            let uid = object.uid.clone();
            let before = written.get(name).filter(|it| it.uid == uid);
            let before = before.map_or(&[][..], |it| &it.status.conditions);
            let state = |node: &str| self.common.board.state(node);
            let status = status(&known, state, before, now);
            (name.clone(), Written { uid, status })
        };
        facts.gateways.iter().map(status).collect()
    }

    async fn patch(&self, name: &str, status: &EgressGatewayStatus) -> Result<(), ClientError> {
        let patch = json!({
            "apiVersion": EgressGateway::api_version(&()),
            "kind": EgressGateway::kind(&()),
            "status": status,
        });
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&patch);
        let request = self.gateways.patch_status(name, &params, &patch);
        patiently("patch a gateway's status", request)
            .await
            .map(drop)
    }
}
