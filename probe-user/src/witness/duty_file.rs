//! The duty in a file, so that a witness that restarts needs no controller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::channel::{Duty, Malformed, proto};
use crate::keys::replace_whole;

/// It holds the keys of other nodes.
const OWNER_ONLY: u32 = 0o600;

/// Why the file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DutyFileError {
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is no message.
    #[error("{} holds no witness's duty", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        source: prost::DecodeError,
    },
    /// The message makes no sense.
    #[error("{} holds a duty that makes no sense", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Malformed,
    },
}

/// The file of a witness's duty: the request as it came, in its own encoding.
#[derive(Clone, Debug)]
pub struct DutyFile(PathBuf);

impl DutyFile {
    /// The one that lies beside the agent's record of egress IPs.
    pub fn beside(record: &Path) -> Self {
        let mut name = record.as_os_str().to_owned();
        name.push(".witness");
        Self(name.into())
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the duty; `None`: there is no file.
    ///
    /// # Errors
    /// Names the file.
    pub fn read(&self) -> Result<Option<Duty>, DutyFileError> {
        let bytes = match fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("read", source)),
        };
        let path = || self.0.clone();
        let request = proto::WitnessRequest::decode(bytes.as_slice()).map_err(|source| {
            let path = path();
            DutyFileError::Content { path, source }
        })?;
        let duty = Duty::try_from(request).map_err(|source| {
            let path = path();
            DutyFileError::Malformed { path, source }
        })?;
        Ok(Some(duty))
    }

    /// Writes the duty, durably and as a whole.
    ///
    /// # Errors
    /// Names the file.
    pub fn write(&self, duty: Duty) -> Result<(), DutyFileError> {
        let bytes = proto::WitnessRequest::from(duty).encode_to_vec();
        let directory = self.0.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)
            .and_then(|()| replace_whole(&self.0, OWNER_ONLY, bytes))
            .map_err(|source| self.failed("write", source))
    }

    /// Removes the file. Whether there was one.
    ///
    /// # Errors
    /// Names the file.
    pub fn remove(&self) -> Result<bool, DutyFileError> {
        match fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(self.failed("remove", source)),
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> DutyFileError {
        DutyFileError::File {
            action,
            path: self.0.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::channel::Watched;
    use crate::keys::ClusterKeys;

    fn duty(version: u64) -> Duty {
        let watched = Watched {
            keys: ClusterKeys::generate(1).unwrap().node_keys("n1"),
            addresses: vec!["10.77.0.1".parse().unwrap()],
            floor: 7,
            vote: true,
        };
        Duty {
            version,
            instance: Some(9),
            watched: vec![watched],
            period: Duration::from_millis(200),
            lease: Duration::from_millis(1_400),
            port: 862,
        }
    }

    #[test]
    fn the_last_duty_is_read_as_it_was_written_and_none_once_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = DutyFile::beside(&directory.path().join("made/agent.json"));
        assert_eq!(file.read().unwrap(), None);
        for version in [1, 2] {
            let duty = duty(version);
            file.write(duty.clone()).unwrap();
            assert_eq!(file.read().unwrap(), Some(duty));
        }
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn what_is_no_duty_is_refused_by_the_files_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = DutyFile::beside(&directory.path().join("agent.json"));
        fs::write(file.path(), "{}").unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("agent.json.witness holds no"), "{error}");
        // A message, but one without a period.
        fs::write(file.path(), [8, 1]).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("that makes no sense"), "{error}");
    }
}
