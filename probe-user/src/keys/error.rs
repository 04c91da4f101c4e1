//! What can go wrong with a key. No message repeats a key.

use std::io;
use std::path::PathBuf;

/// Why a key could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system gives no random bytes.
    #[error("cannot make a key: getrandom: {source}")]
    Random {
        /// What the system said.
        source: getrandom::Error,
    },
    /// The file cannot be opened or read.
    #[error("cannot read key file {}: {source}", .path.display())]
    Read {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file's mode lets others than its owner at the key.
    #[error(
        "key file {path} has mode {mode:04o}, so others than its owner can get at the key: \
         run `chmod 600 {path}`, and replace the key if anyone may have read it",
        path = .path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file's content is not a key.
    #[error("key file {}: {reason}", .path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        reason: MalformedKey,
    },
    /// The file to write exists; keys are never overwritten.
    #[error("key file {} exists already: a key is never overwritten", .path.display())]
    Exists {
        /// The key file.
        path: PathBuf,
    },
    /// The file cannot be made or written.
    #[error("cannot write key file {}: {source}", .path.display())]
    Write {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A third key would be needed.
    #[error(
        "a rotation from key {current} to key {next} is under way, and only two keys can be valid at \
         once: finish it before you begin another"
    )]
    Rotating {
        /// Id of the current key.
        current: u16,
        /// Id of the next key.
        next: u16,
    },
    /// There is no key to go on with.
    #[error("no rotation is under way: key {id} is the only one")]
    NotRotating {
        /// Its id.
        id: u16,
    },
    /// A node's name that does not fit into a line.
    #[error("{node:?} cannot name a node: a name is not empty and holds no control characters")]
    NodeName {
        /// The name.
        node: String,
    },
}

impl KeyError {
    /// Whether the file to read is missing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// What is wrong with the content of a key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedKey {
    /// No line at all.
    #[error("is empty")]
    Empty,
    /// More lines than keys can be valid at once.
    #[error("holds {lines} keys; at most {MAX} (current, next) can be valid at once", MAX = super::MAX_KEYS)]
    TooMany {
        /// Lines found.
        lines: usize,
    },
    /// A line that is no key of the kind asked for.
    #[error("line {line} is not of the form {form}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What a line looks like.
        form: &'static str,
    },
    /// Two keys with one id.
    #[error("holds two keys with id {id}")]
    SameId {
        /// The id.
        id: u16,
    },
    /// Keys of two nodes in one file.
    #[error("holds keys of two nodes, {first:?} and {second:?}")]
    TwoNodes {
        /// The first line's node.
        first: String,
        /// Another line's.
        second: String,
    },
}
