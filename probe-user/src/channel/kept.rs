//! Requests in files, so that an agent that restarts needs no controller to go on.

use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use prost::Message;

use super::Malformed;
use crate::keys::replace_whole;

/// What is told over the channel and outlives the agent.
pub trait Kept: TryFrom<Self::Message, Error = Malformed> + Into<Self::Message> {
    /// How it travels.
    type Message: Message + Default;
    /// What its file's name ends with.
    const SUFFIX: &str;
    /// Who may read the file.
    const MODE: u32;
    /// What is in the file.
    const WHAT: &str;
}

/// Why the file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeptFileError {
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
    #[error("{} holds no {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Where it goes wrong.
        source: prost::DecodeError,
    },
    /// The message makes no sense.
    #[error("{} holds a {what} that makes no sense", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong with it.
        source: Malformed,
    },
}

/// The file of a request: as it came, in its own encoding.
pub struct KeptFile<T> {
    path: PathBuf,
    kept: PhantomData<fn() -> T>,
}

impl<T: Kept> KeptFile<T> {
    /// The one that lies beside the agent's record of egress IPs.
    pub fn beside(record: &Path) -> Self {
        let mut name = record.as_os_str().to_owned();
        name.push(T::SUFFIX);
        Self {
            path: name.into(),
            kept: PhantomData,
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None`: there is no file.
    ///
    /// # Errors
    /// Names the file.
    pub fn read(&self) -> Result<Option<T>, KeptFileError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("read", source)),
        };
        let (path, what) = (|| self.path.clone(), T::WHAT);
        let message = T::Message::decode(bytes.as_slice()).map_err(|source| {
            let path = path();
            KeptFileError::Content { path, what, source }
        })?;
        let kept = T::try_from(message).map_err(|source| {
            let path = path();
            KeptFileError::Malformed { path, what, source }
        })?;
        Ok(Some(kept))
    }

    /// Writes it, durably and as a whole.
    ///
    /// # Errors
    /// Names the file.
    pub fn write(&self, kept: T) -> Result<(), KeptFileError> {
        let bytes = kept.into().encode_to_vec();
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)
            .and_then(|()| replace_whole(&self.path, T::MODE, bytes))
            .map_err(|source| self.failed("write", source))
    }

    /// Removes the file. Whether there was one.
    ///
    /// # Errors
    /// Names the file.
    pub fn remove(&self) -> Result<bool, KeptFileError> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(self.failed("remove", source)),
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> KeptFileError {
        KeptFileError::File {
            action,
            path: self.path.clone(),
            source,
        }
    }
}

impl<T> Clone for KeptFile<T> {
    fn clone(&self) -> Self {
        Self {
            path: self.path.clone(),
            kept: PhantomData,
        }
    }
}

impl<T> fmt::Debug for KeptFile<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("KeptFile").field(&self.path).finish()
    }
}
