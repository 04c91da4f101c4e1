//! The files in which certificates and keys are.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Roots;
use crate::channel::Identity;
use crate::private;

/// Where a daemon's certificates and key are, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that are trusted.
    pub ca: PathBuf,
    /// The daemon's own certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// The daemon's key; nobody but its owner may read it.
    pub key: PathBuf,
    /// The DNS name in the certificates of those at the other end, if they do not say by a URI who
    /// they are.
    pub peer: Option<String>,
}

/// Where the certificate and the key of a server are that anybody may call, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertFiles {
    /// The server's certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// Its key; nobody but its owner may read it.
    pub key: PathBuf,
}

/// Why TLS cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The key's file lets others than its owner at the key.
    #[error(
        "{path} has mode {mode:04o}, so others than its owner can get at the key: \
         run `chmod 600 {path}`, and replace the key if anyone may have read it",
        path = .path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file does not hold what it should.
    #[error("{} holds no usable {what}", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// Certificates and key make no whole.
    #[error("{} and {} cannot be used together", .cert.display(), .key.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// No certificate that could be an authority's.
    #[error("{} holds no usable certificate of an authority", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// A certificate with those above it, and its key.
pub(super) struct Pair {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// What a daemon's files hold.
pub(super) struct Material {
    pub(super) roots: Roots,
    pub(super) own: Pair,
}

/// What tells that a file has been replaced or rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl From<Metadata> for FileStamp {
    fn from(metadata: Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What tells that any of some files has changed; a file that is missing has no stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Vec<Option<FileStamp>>);

impl Stamp {
    pub(super) fn of(files: &[&Path]) -> Self {
        let stamp = |path: &&Path| fs::metadata(path).ok().map(FileStamp::from);
        Self(files.iter().map(stamp).collect())
    }
}

impl TlsFiles {
    /// Those of the daemon's own certificate.
    pub(super) fn own(&self) -> CertFiles {
        CertFiles {
            cert: self.cert.clone(),
            key: self.key.clone(),
        }
    }

    /// Who is expected at the other end, where it should be `identity`.
    pub(super) fn expect(&self, identity: Identity) -> Identity {
        self.peer.clone().map_or(identity, Identity::Named)
    }

    pub(super) fn read(&self) -> Result<Material, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots
                .add(certificate)
                .map_err(|source| TlsError::Authority {
                    path: self.ca.clone(),
                    source,
                })?;
        }
        Ok(Material {
            roots: Arc::new(roots),
            own: self.own().read()?,
        })
    }
}

impl CertFiles {
    pub(super) fn unusable(&self, source: rustls::Error) -> TlsError {
        TlsError::Unusable {
            cert: self.cert.clone(),
            key: self.key.clone(),
            source,
        }
    }

    pub(super) fn read(&self) -> Result<Pair, TlsError> {
        Ok(Pair {
            chain: certificates(&self.cert)?,
            key: private_key(&self.key)?,
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let malformed = |source| TlsError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    };
    let bytes = fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })?;
    let list = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(malformed)?;
    if list.is_empty() {
        return Err(malformed(pem::Error::NoItemsFound));
    }
    Ok(list)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    // Asked of the open file, so that it is the mode of what is read.
    if let Some(mode) = private::exposed(&file.metadata().map_err(failed)?) {
        return Err(TlsError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        what: "private key",
        source,
    })
}
