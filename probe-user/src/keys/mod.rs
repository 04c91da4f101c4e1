//! Keys of probes: one cluster key, and a key per node derived from it.
//!
//! Controllers hold the cluster key and derive every node's; a node holds only its own. Two keys
//! may be valid at once, so that they can be rotated: the first, *current*, signs; both verify.
//! Secrets leave this module only as the bytes that a kernel map or a MAC needs, and as files
//! that nobody but their owner may read.

#![forbid(unsafe_code)]

mod error;
mod file;

use std::fmt;
use std::path::Path;

use hkdf::Hkdf;
use probe_ebpf::maps::KEY_SLOTS;
use probe_ebpf::siphash::SipKey;
use sha2::Sha256;

pub use error::{KeyError, MalformedKey};
pub use file::{create_whole, replace_whole};

/// Bytes of a cluster key.
const CLUSTER_KEY_LEN: usize = 32;
/// Bytes of a node's key: SipHash's.
const NODE_KEY_LEN: usize = 16;
/// Keys valid at once.
const MAX_KEYS: usize = KEY_SLOTS;
/// Says, in HKDF's info, what is derived; the node's name follows.
const NODE_KEY_INFO: &[u8] = b"pulsepath node key v1\0";

const CLUSTER_LABEL: &str = "pulsepath-cluster-key";
const NODE_LABEL: &str = "pulsepath-node-key";

#[derive(Clone, PartialEq, Eq)]
struct ClusterKey {
    id: u16,
    secret: [u8; CLUSTER_KEY_LEN],
}

impl ClusterKey {
    /// HKDF-SHA256 (RFC 5869) without salt.
    fn node_key(&self, node: &str) -> NodeKey {
        let mut secret = [0; NODE_KEY_LEN];
        Hkdf::<Sha256>::new(None, &self.secret)
            .expand_multi_info(&[NODE_KEY_INFO, node.as_bytes()], &mut secret)
            .expect("16 bytes are far below HKDF's limit of 8160");
        NodeKey {
            id: self.id,
            secret,
        }
    }
}

/// The cluster's keys: current, and perhaps next. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKeys {
    keys: Vec<ClusterKey>,
}

impl ClusterKeys {
    /// A new random key.
    ///
    /// # Errors
    ///
    /// [`KeyError::Random`] if the operating system gives no random bytes.
    pub fn generate(id: u16) -> Result<Self, KeyError> {
        let mut secret = [0; CLUSTER_KEY_LEN];
        getrandom::fill(&mut secret).map_err(|source| KeyError::Random { source })?;
        Ok(Self {
            keys: vec![ClusterKey { id, secret }],
        })
    }

    /// Reads a file of lines `pulsepath-cluster-key:<id>:<64 hex digits>`, current key first.
    ///
    /// # Errors
    ///
    /// Names the file, and the line that is wrong. Refuses a file that group or others may read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let parse = |line: &str| {
            let (id, secret) = split_key(line.strip_prefix(CLUSTER_LABEL)?.strip_prefix(':')?)?;
            Some(ClusterKey { id, secret })
        };
        let keys = file::read(path, "pulsepath-cluster-key:<id>:<64 hex digits>", parse)?;
        file::check_ids(path, keys.iter().map(|key| key.id))?;
        Ok(Self { keys })
    }

    /// Writes the keys to a new file of mode 0600.
    ///
    /// # Errors
    ///
    /// Names the file; one that exists is never touched.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), KeyError> {
        file::write_new(path.as_ref(), &self.lines())
    }

    /// Writes the keys to a file of mode 0600, in place of what it held. Whoever reads it gets the old
    /// keys or the new ones, whatever happens meanwhile.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn replace(&self, path: impl AsRef<Path>) -> Result<(), KeyError> {
        file::replace(path.as_ref(), &self.lines())
    }

    fn lines(&self) -> String {
        let line = |key: &ClusterKey| {
            format!("{CLUSTER_LABEL}:{}:{}\n", key.id, file::to_hex(&key.secret))
        };
        self.keys.iter().map(line).collect()
    }

    /// Ids of the keys, that of the current one first.
    pub fn ids(&self) -> Vec<u16> {
        self.keys.iter().map(|key| key.id).collect()
    }

    /// Begins a rotation: the key that is current stays so, and a new random one is next.
    ///
    /// # Errors
    ///
    /// A rotation is under way, or the operating system gives no random bytes.
    pub fn begin_rotation(&mut self) -> Result<(), KeyError> {
        let [current] = self.keys.as_slice() else {
            let (current, next) = (self.keys[0].id, self.keys[1].id);
            return Err(KeyError::Rotating { current, next });
        };
        let next = Self::generate(current.id.wrapping_add(1))?;
        self.keys.extend(next.keys);
        Ok(())
    }

    /// Ends a rotation: the next key is the current one, and the only one.
    ///
    /// # Errors
    ///
    /// None is under way.
    pub fn finish_rotation(&mut self) -> Result<(), KeyError> {
        if self.keys.len() < 2 {
            return Err(KeyError::NotRotating {
                id: self.keys[0].id,
            });
        }
        self.keys.remove(0);
        Ok(())
    }

    /// The keys of the node with this name.
    pub fn node_keys(&self, node: &str) -> NodeKeys {
        NodeKeys {
            node: node.to_owned(),
            keys: self.keys.iter().map(|key| key.node_key(node)).collect(),
        }
    }
}

impl fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.keys.iter().map(|key| key.id).collect::<Vec<_>>();
        f.debug_struct("ClusterKeys")
            .field("ids", &ids)
            .finish_non_exhaustive()
    }
}

/// One key of a node.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeKey {
    /// Which key this is, as probes name it.
    pub id: u16,
    secret: [u8; NODE_KEY_LEN],
}

impl NodeKey {
    /// The key with these bytes.
    pub const fn new(id: u16, secret: [u8; NODE_KEY_LEN]) -> Self {
        Self { id, secret }
    }

    /// The key as MACs are computed with it.
    pub const fn sip(&self) -> SipKey {
        SipKey::from_bytes(&self.secret)
    }

    /// The key's bytes, for the node's kernel. A secret.
    pub const fn bytes(&self) -> [u8; NODE_KEY_LEN] {
        self.secret
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A node's keys: current, and perhaps next. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeKeys {
    node: String,
    keys: Vec<NodeKey>,
}

impl NodeKeys {
    /// The keys of the node with this name, current first.
    ///
    /// # Errors
    ///
    /// If there are none, more than two, or two with one id.
    pub fn new(node: &str, keys: Vec<NodeKey>) -> Result<Self, MalformedKey> {
        match keys.as_slice() {
            [] => Err(MalformedKey::Empty),
            [first, second] if first.id == second.id => Err(MalformedKey::SameId { id: first.id }),
            keys if keys.len() > MAX_KEYS => Err(MalformedKey::TooMany { lines: keys.len() }),
            _ => Ok(Self {
                node: node.to_owned(),
                keys,
            }),
        }
    }

    /// Reads a file of lines `pulsepath-node-key:<node>:<id>:<32 hex digits>`, current key first.
    ///
    /// # Errors
    ///
    /// Names the file, and the line that is wrong. Refuses a file that group or others may read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let parse = |line: &str| {
            let rest = line.strip_prefix(NODE_LABEL)?.strip_prefix(':')?;
            // A name may hold colons; an id and hex digits do not.
            let (rest, digits) = rest.rsplit_once(':')?;
            let (node, id) = rest.rsplit_once(':')?;
            let secret = file::from_hex(digits)?;
            Some((
                node.to_owned(),
                NodeKey {
                    id: id.parse().ok()?,
                    secret,
                },
            ))
        };
        let lines = file::read(
            path,
            "pulsepath-node-key:<node>:<id>:<32 hex digits>",
            parse,
        )?;
        file::check_ids(path, lines.iter().map(|(_, key)| key.id))?;
        let (nodes, keys): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
        let malformed = |reason| KeyError::Malformed {
            path: path.to_owned(),
            reason,
        };
        let node = nodes
            .first()
            .cloned()
            .ok_or(malformed(MalformedKey::Empty))?;
        match nodes.into_iter().find(|other| *other != node) {
            Some(other) => Err(malformed(MalformedKey::TwoNodes {
                first: node,
                second: other,
            })),
            None => Ok(Self { node, keys }),
        }
    }

    /// Writes the keys to a new file of mode 0600.
    ///
    /// # Errors
    ///
    /// Names the file; one that exists is never touched. Refuses a node name that a line cannot
    /// hold.
    pub fn write_new(&self, path: impl AsRef<Path>) -> Result<(), KeyError> {
        file::write_new(path.as_ref(), &self.lines()?)
    }

    /// Writes the keys to a file of mode 0600, in place of what it held. Whoever reads it gets the old
    /// keys or the new ones, whatever happens meanwhile.
    ///
    /// # Errors
    ///
    /// Names the file. Refuses a node name that a line cannot hold.
    pub fn replace(&self, path: impl AsRef<Path>) -> Result<(), KeyError> {
        file::replace(path.as_ref(), &self.lines()?)
    }

    fn lines(&self) -> Result<String, KeyError> {
        if self.node.is_empty() || self.node.contains(char::is_control) {
            return Err(KeyError::NodeName {
                node: self.node.clone(),
            });
        }
        let lines = self.keys.iter().map(|key| {
            format!(
                "{NODE_LABEL}:{}:{}:{}\n",
                self.node,
                key.id,
                file::to_hex(&key.secret)
            )
        });
        Ok(lines.collect())
    }

    /// The same keys, but the newest that the node is known to hold signs: in a rotation, the next
    /// key if it is one of `held`, and the current one otherwise.
    pub fn signing_as_held(&self, held: &[NodeKey]) -> Self {
        let mut keys = self.keys.clone();
        let newest = keys.iter().rposition(|key| held.contains(key));
        keys[..=newest.unwrap_or_default()].rotate_right(1);
        Self {
            node: self.node.clone(),
            keys,
        }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The key that signs.
    pub fn current(&self) -> &NodeKey {
        &self.keys[0]
    }

    /// Every valid key, current first: one or two.
    pub fn all(&self) -> &[NodeKey] {
        &self.keys
    }
}

/// `<id>:<hex digits>`.
fn split_key<const N: usize>(text: &str) -> Option<(u16, [u8; N])> {
    let (id, digits) = text.split_once(':')?;
    Some((id.parse().ok()?, file::from_hex(digits)?))
}

#[cfg(test)]
mod tests;
