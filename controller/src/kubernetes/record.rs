//! The record of all assignments, in a ConfigMap: read at the start of a term, and written by whoever
//! leads, never over anything that it has not read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use probe_user::logging::in_words;
use tokio::sync::mpsc;

use super::patience::{ClientError, patiently};
use super::place::Place;
use super::rebuilt::rebuilt;
use super::resources::EgressGateway;
use crate::daemon::{Mandate, Recorder, Role, Scribe};
use crate::failover::Record;
use crate::tenure::Tenure;

/// The key of the record in its ConfigMap.
const KEY: &str = "record.json";
/// The annotation that says which process wrote it.
const WRITER: &str = "pulsepath.dev/writer";
/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// Why there is no record to go on from.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// The API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It is not what a controller writes.
    #[error(
        "ConfigMap {name}: {KEY} is damaged: restore it from a copy, or delete the ConfigMap to go on \
         with what the EgressGateways' statuses say"
    )]
    Damaged {
        /// Its name.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// What became of writing it.
enum Written {
    /// It is durable.
    Yes,
    /// Somebody else has written it meanwhile.
    Overtaken,
}

/// The record, in one term of this process.
pub(super) struct Records {
    maps: Api<ConfigMap>,
    gateways: Api<EgressGateway>,
    name: String,
    /// Who writes.
    writer: String,
    /// Of the ConfigMap as it was read or written last; `None`: there is none.
    version: Option<String>,
}

impl Records {
    pub(super) fn new(client: &Client, place: &Place, name: &str) -> Self {
        Self {
            maps: Api::namespaced(client.clone(), &place.namespace),
            gateways: Api::all(client.clone()),
            name: name.to_owned(),
            writer: place.identity.clone(),
            version: None,
        }
    }

    /// Reads the record, gives `roles` the right to decide by it, and writes whatever is decided, until
    /// `tenure` ends.
    pub(super) async fn run(mut self, tenure: Tenure, roles: mpsc::UnboundedSender<Role>) {
        let record = loop {
            if tenure.is_over(Instant::now()) {
                return;
            }
            match self.read().await {
                Ok(record) => break record,
                Err(error) => {
                    let error = in_words(&error);
                    tracing::error!(error, "the record cannot be read: nothing is decided");
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        let (recorder, scribe) = Recorder::new(&record);
        let mandate = Mandate {
            record,
            recorder,
            tenure: tenure.clone(),
        };
        // The task that hears it ends with the process.
        let _ = roles.send(Role::Leader(Box::new(mandate)));
        self.keep(scribe, tenure).await;
    }

    async fn keep(&mut self, mut scribe: Scribe, tenure: Tenure) {
        while scribe.changed().await {
            while scribe.is_behind() && !tenure.is_over(Instant::now()) {
                let record = scribe.wanted();
                match self.write(&record).await {
                    Ok(Written::Yes) => scribe.note_durable(record.version),
                    Ok(Written::Overtaken) => {
                        tracing::error!("somebody else writes the record: this term is over");
                        tenure.set_end(Instant::now());
                    }
                    Err(error) => {
                        let error = in_words(&error);
                        tracing::warn!(
                            error,
                            "the record was not written: nothing moves until it is"
                        );
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        }
    }

    async fn read(&mut self) -> Result<Record, RecordError> {
        let Some(map) = self.get().await? else {
            tracing::warn!(
                config_map = self.name,
                "there is no record: starting from what the EgressGateways' statuses say"
            );
            let params = ListParams::default();
            let list = patiently("list egressgateways", self.gateways.list(&params)).await?;
            self.version = None;
            return Ok(rebuilt(SystemTime::now(), &list.items));
        };
        self.version = map.resource_version();
        let text = map.data.as_ref().and_then(|data| data.get(KEY));
        let text = text.map_or("", String::as_str);
        serde_json::from_str(text).map_err(|source| RecordError::Damaged {
            name: self.name.clone(),
            source,
        })
    }

    async fn get(&self) -> Result<Option<ConfigMap>, ClientError> {
        patiently("get the record", self.maps.get_opt(&self.name)).await
    }

    async fn write(&mut self, record: &Record) -> Result<Written, RecordError> {
        let text = serde_json::to_string(record).map_err(|source| RecordError::Damaged {
            name: self.name.clone(),
            source,
        })?;
        let writer = self.writer.clone();
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: self.version.clone(),
                annotations: Some(BTreeMap::from([(WRITER.to_owned(), writer)])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
            ..ConfigMap::default()
        };
        let params = PostParams::default();
        let written = match self.version {
            Some(_) => {
                let write = self.maps.replace(&self.name, &params, &map);
                patiently("update the record", write).await
            }
            None => patiently("create the record", self.maps.create(&params, &map)).await,
        };
        match written {
            Ok(map) => {
                self.version = map.resource_version();
                Ok(Written::Yes)
            }
            Err(error) if error.is_conflict() => self.look_again().await,
            Err(error) => Err(error.into()),
        }
    }

    /// Another version is there: this process's own, if an earlier write arrived of which nobody heard,
    /// or somebody else's.
    async fn look_again(&mut self) -> Result<Written, RecordError> {
        let map = self.get().await?;
        let writer = map.as_ref().and_then(|map| map.annotations().get(WRITER));
        if map.is_some() && writer != Some(&self.writer) {
            return Ok(Written::Overtaken);
        }
        self.version = map.and_then(|map| map.resource_version());
        Err(RecordError::Client(ClientError::Again))
    }
}
