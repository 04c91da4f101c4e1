//! The file that keeps states over a restart.
//!
//! It is replaced as a whole, by renaming, so that a reader, or a machine that crashes, sees the
//! old one or the new one.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::api::{Reason, State, Timestamp};
use crate::failover::Record as Assignments;
use crate::monitor::{NodeView, Record};
use crate::services::Pick;

/// Version of the layout.
/// - 1: nodes only,
/// - 2: and assignments of egress IPs.
const VERSION: u32 = 2;

/// Why states were not restored or kept.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file is there and cannot be read.
    #[error("cannot read the state file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The content is not what a controller writes.
    #[error(
        "the state file {path} is damaged ({source}): restore it from a copy, or move it away to \
         start with every node UNKNOWN",
        path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A newer controller wrote it.
    #[error(
        "the state file {path} has version {version}, and this controller knows versions up to \
         {VERSION}: run the newer controller, or move the file away to start with every node \
         UNKNOWN",
        path = path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file cannot be written.
    #[error("cannot write the state file {}: {call}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Deserialize, Serialize)]
struct Content {
    version: u32,
    nodes: BTreeMap<String, Entry>,
    #[serde(default)]
    failover: Assignments,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    services: BTreeMap<String, PickEntry>,
}

#[derive(Deserialize, Serialize)]
struct PickEntry {
    node: Option<String>,
    since: Timestamp,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    state: State,
    reason: Reason,
    since: Timestamp,
    #[serde(with = "hexadecimal", default, skip_serializing_if = "Option::is_none")]
    incarnation: Option<u64>,
}

/// What an earlier controller recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The nodes' states, by name.
    pub nodes: HashMap<String, Record>,
    /// Who owns which egress IP.
    pub assignments: Assignments,
    /// Who is picked for each service.
    pub picks: BTreeMap<String, Pick>,
}

/// The state file.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The file at `path`, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What was recorded; nothing if there is no file.
    ///
    /// # Errors
    ///
    /// If there is a file and it is not one that this controller understands: states that were
    /// kept are never dropped silently.
    pub fn read(&self) -> Result<Kept, StateFileError> {
        let path = || self.path.clone();
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(source) => {
                return Err(StateFileError::Read {
                    path: path(),
                    source,
                });
            }
        };
        let damaged = |source| StateFileError::Damaged {
            path: path(),
            source,
        };
        let Head { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version > VERSION {
            return Err(StateFileError::Newer {
                path: path(),
                version,
            });
        }
        let content: Content = serde_json::from_slice(&text).map_err(damaged)?;
        let record = |(name, entry): (String, Entry)| {
            let Entry {
                state,
                reason,
                since: Timestamp(since),
                incarnation,
            } = entry;
            (
                name,
                Record {
                    state,
                    reason,
                    since,
                    incarnation,
                },
            )
        };
        let pick = |(service, PickEntry { node, since })| {
            let Timestamp(since) = since;
            (service, Pick { node, since })
        };
        Ok(Kept {
            nodes: content.nodes.into_iter().map(record).collect(),
            assignments: content.failover,
            picks: content.services.into_iter().map(pick).collect(),
        })
    }

    /// Records the nodes' states, who owns which egress IP, and who is picked for each service. Nodes
    /// that are UNKNOWN are left out.
    ///
    /// # Errors
    ///
    /// If the file cannot be replaced; the old one is untouched then.
    pub fn write(
        &self,
        nodes: &[NodeView],
        assignments: &Assignments,
        picks: &BTreeMap<String, Pick>,
    ) -> Result<(), StateFileError> {
        let entry = |view: &NodeView| Entry {
            state: view.state,
            reason: view.reason,
            since: Timestamp(view.since),
            incarnation: view.incarnation,
        };
        let known = nodes.iter().filter(|view| view.state != State::Unknown);
        let nodes = known.map(|view| (view.name.clone(), entry(view))).collect();
        let service = |(name, pick): (&String, &Pick)| {
            let (node, since) = (pick.node.clone(), Timestamp(pick.since));
            (name.clone(), PickEntry { node, since })
        };
        let failed = |call| {
            move |source| StateFileError::Write {
                path: self.path.clone(),
                call,
                source,
            }
        };
        let text = serde_json::to_vec_pretty(&Content {
            version: VERSION,
            nodes,
            failover: assignments.clone(),
            services: picks.iter().map(service).collect(),
        })
        .map_err(io::Error::from)
        .map_err(failed("encoding"))?;
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            Some(_) | None => Path::new("."),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".pulsepath-state-")
            .tempfile_in(directory)
            .map_err(failed("creating a temporary file beside it"))?;
        file.write_all(&text).map_err(failed("write"))?;
        file.as_file().sync_all().map_err(failed("fsync"))?;
        file.persist(&self.path)
            .map_err(|error| failed("rename")(error.error))?;
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(failed("fsync of its directory"))
    }
}

/// Incarnations as 16 hexadecimal digits: JSON's numbers hold only 53 bits everywhere.
mod hexadecimal {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        number: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => serializer.collect_str(&format_args!("{number:016x}")),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parse = |text: String| u64::from_str_radix(&text, 16).map_err(D::Error::custom);
        text.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn view(name: &str, state: State, incarnation: Option<u64>) -> NodeView {
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let mut view = NodeView::new(name.to_owned(), since);
        view.state = state;
        view.reason = Reason::AgentSilent;
        view.incarnation = incarnation;
        view
    }

    fn file_with(content: &str) -> (tempfile::TempDir, StateFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        fs::write(&path, content).unwrap();
        (directory, StateFile::new(path))
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (_directory, file) = file_with("");
        let large = Some(u64::MAX - 1);
        let nodes = [
            view("n1", State::Unavailable, large),
            view("n2", State::Unreachable, None),
        ];
        let assignments = Assignments {
            term: 7,
            ..Assignments::default()
        };
        let pick = Pick {
            node: Some("n1".to_owned()),
            since: nodes[0].since,
        };
        let picks = BTreeMap::from([("dns".to_owned(), pick)]);
        file.write(&nodes, &assignments, &picks).unwrap();
        let kept = file.read().unwrap();
        let records = kept.nodes;
        assert_eq!((kept.assignments, kept.picks), (assignments, picks));
        let expected = |view: &NodeView| Record {
            state: view.state,
            reason: view.reason,
            since: view.since,
            incarnation: view.incarnation,
        };
        assert_eq!(records["n1"], expected(&nodes[0]));
        assert_eq!(records["n2"], expected(&nodes[1]));
    }

    #[test]
    fn unknown_nodes_are_not_recorded() {
        let (_directory, file) = file_with("");
        let unknown = [view("n1", State::Unknown, None)];
        file.write(&unknown, &Assignments::default(), &BTreeMap::new())
            .unwrap();
        assert_eq!(file.read().unwrap(), Kept::default());
    }

    #[test]
    fn a_file_that_is_not_there_records_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path().join("state.json"));
        assert_eq!(file.read().unwrap(), Kept::default());
    }

    #[test]
    fn a_file_of_before_there_were_gateways_is_read() {
        let old = r#"{"version":1,"nodes":{"n1":{"state":"AVAILABLE","reason":"AgentUp",
            "since":"2026-11-30T20:00:00.000Z","incarnation":"00000000000000ff"}}}"#;
        let (_directory, file) = file_with(old);
        let kept = file.read().unwrap();
        assert_eq!(kept.nodes["n1"].incarnation, Some(255));
        assert_eq!(kept.assignments, Assignments::default());
    }

    #[test]
    fn a_damaged_file_is_refused_with_advice() {
        let cases = [
            "",
            "{",
            "[]",
            r#"{"version":1}"#,
            r#"{"version":1,"nodes":{"n1":{}}}"#,
        ];
        for content in cases {
            let (_directory, file) = file_with(content);
            let error = file.read().unwrap_err().to_string();
            assert!(
                error.contains("state.json is damaged"),
                "{content}: {error}"
            );
            assert!(error.contains("move it away"), "{error}");
        }
    }

    #[test]
    fn a_newer_file_is_refused_with_advice_whatever_is_in_it() {
        let (_directory, file) = file_with(r#"{"version":3,"zones":[]}"#);
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("version 3"), "{error}");
        assert!(error.contains("run the newer controller"), "{error}");
    }

    #[test]
    fn writing_leaves_nothing_else_behind() {
        let (directory, file) = file_with("");
        file.write(
            &[view("n1", State::Available, Some(1))],
            &Assignments::default(),
            &BTreeMap::new(),
        )
        .unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_that_names_the_file() {
        let file = StateFile::new("/nonexistent/state.json");
        let error = file
            .write(&[], &Assignments::default(), &BTreeMap::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nonexistent/state.json"), "{error}");
    }
}
