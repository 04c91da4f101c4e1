//! A private authority, and certificates for the control channel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use probe_user::channel::Identity;
use probe_user::keys::create_whole;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;
const SERVER: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ServerAuth;
const OWNER_ONLY: u32 = 0o600;
const EVERYBODY_READS: u32 = 0o644;
/// Certificates are valid from a little before they are made: clocks differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(3600);

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The authority's certificate or key cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The authority's files do not hold what they should.
    #[error("{} and {} are no authority's certificate and key", .cert.display(), .key.display())]
    NotAnAuthority {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rcgen::Error,
    },
    /// The certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// The file to write exists; keys are never overwritten.
    #[error("{} exists already: a key is never overwritten", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A certificate and its key, in PEM.
pub struct Certified {
    cert: String,
    key: KeyPair,
}

/// Where a certificate and its key are, or shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Certified {
    /// An authority of its own.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Make`].
    pub fn authority(validity: Duration) -> Result<Self, AuthorityError> {
        let mut params = params("Pulsepath control channel", validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?.pem();
        Ok(Self { cert, key })
    }

    /// A certificate for `identity` by the authority whose files are at `authority`.
    ///
    /// # Errors
    ///
    /// Names the files of the authority if they are of no use.
    pub fn issue(
        identity: &Identity,
        validity: Duration,
        authority: &Pair,
    ) -> Result<Self, AuthorityError> {
        let issuer = read_authority(authority)?;
        let name = identity.to_string();
        let mut params = params(&name, validity);
        let (alt_name, usages) = match identity {
            Identity::Controller => (SanType::URI(name.try_into()?), vec![CLIENT]),
            Identity::Node(_) => (SanType::URI(name.try_into()?), vec![SERVER]),
            Identity::Named(_) => (SanType::DnsName(name.try_into()?), vec![CLIENT, SERVER]),
        };
        params.subject_alt_names = vec![alt_name];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &issuer)?.pem();
        Ok(Self { cert, key })
    }

    /// Writes both to new files; only the owner may read the key's.
    ///
    /// # Errors
    ///
    /// Names the file; one that exists is never touched.
    pub fn write_new(&self, pair: &Pair) -> Result<(), AuthorityError> {
        write_new(&pair.key, OWNER_ONLY, &self.key.serialize_pem())?;
        write_new(&pair.cert, EVERYBODY_READS, &self.cert).inspect_err(|_| {
            // Without its certificate it is of no use, and would stand in the way of the next
            // attempt. The error that is returned names the reason all the same.
            let _ = fs::remove_file(&pair.key);
        })
    }
}

fn params(name: &str, validity: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_DIFFERENCE).into();
    params.not_after = (now + validity).into();
    params
}

fn read_authority(pair: &Pair) -> Result<Issuer<'static, KeyPair>, AuthorityError> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|source| AuthorityError::Read {
            path: path.to_owned(),
            source,
        })
    };
    let (cert, key) = (read(&pair.cert)?, read(&pair.key)?);
    KeyPair::from_pem(&key)
        .and_then(|key| Issuer::from_ca_cert_pem(&cert, key))
        .map_err(|source| AuthorityError::NotAnAuthority {
            cert: pair.cert.clone(),
            key: pair.key.clone(),
            source,
        })
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), AuthorityError> {
    create_whole(path, mode, text).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => AuthorityError::Exists {
            path: path.to_owned(),
        },
        _ => AuthorityError::Write {
            path: path.to_owned(),
            source,
        },
    })
}
