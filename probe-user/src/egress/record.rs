//! What survives the agent: the set that it was told, and what it changed on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::types::Desired;

/// Why the record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A system call failed.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error("{path} is no record of an agent's egress IPs")]
    Content {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// The record, as its file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The incarnation in which the set was told. In another one the node may have lost addresses
    /// that belong to somebody else by now.
    pub(super) incarnation: u64,
    /// The last set that the node was told.
    pub(super) desired: Option<Desired>,
    /// Addresses that agents have put on the node, and not taken off since. Kernels before 5.18
    /// cannot mark them.
    pub(super) added: BTreeSet<IpAddr>,
    /// What sysctls were before, by path below `/proc/sys`.
    pub(super) sysctls: BTreeMap<String, String>,
}

impl Record {
    /// Reads the record; `None` if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("read", path)(source)),
        };
        let record = serde_json::from_str(&text).map_err(|source| RecordError::Content {
            path: path.to_owned(),
            source,
        })?;
        Ok(Some(record))
    }

    /// Writes the record, durably and as a whole.
    pub(super) fn write(&self, path: &Path) -> Result<(), RecordError> {
        let text = serde_json::to_vec_pretty(self).map_err(|source| RecordError::Content {
            path: path.to_owned(),
            source,
        })?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(failed("make the directory", directory))?;
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(failed("write", &new))?;
        fs::rename(&new, path).map_err(failed("replace", path))?;
        let sync = || File::open(directory)?.sync_all();
        sync().map_err(failed("sync", directory))
    }

    /// Removes the record; one that is not there is fine.
    pub(super) fn delete(path: &Path) -> Result<(), RecordError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError + use<> {
    let path = path.to_owned();
    move |source| RecordError::File {
        action,
        path,
        source,
    }
}
