//! The cluster's certificate authority, and who is who by its certificates.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// Whom a client's certificate stands for, as Kubernetes reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct User<'a> {
    pub(super) name: &'a str,
    /// The group, if any.
    pub(super) group: Option<&'a str>,
}

impl<'a> User<'a> {
    /// One of no group.
    pub(super) const fn named(name: &'a str) -> Self {
        Self { name, group: None }
    }
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

/// One authority for everything.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    /// A new one, whose files go to `directory`.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let mut params = params(User::named("kubernetes"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        write(&directory.join("ca.crt"), &params.self_signed(&key)?.pem())?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            directory: directory.to_owned(),
        })
    }

    /// Its certificate.
    pub(super) fn certificate(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// A certificate by which `user` is a client, in files called `name`.
    pub(super) fn client(&self, name: &str, user: User<'_>) -> Result<Files> {
        self.issue(name, params(user), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A server's certificate, in files called `name`.
    pub(super) fn server(&self, name: &str, names: &[&str], addresses: &[IpAddr]) -> Result<Files> {
        let mut params = params(User::named(name));
        for name in names {
            let name = SanType::DnsName((*name).try_into()?);
            params.subject_alt_names.push(name);
        }
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        self.issue(name, params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A pair of keys that no certificate is made of; the public one takes the certificate's place.
    pub(super) fn bare(&self, name: &str) -> Result<Files> {
        let key = KeyPair::generate()?;
        self.write(name, &key.public_key_pem(), &key)
    }

    fn issue(
        &self,
        name: &str,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Files> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        self.write(name, &certificate, &key)
    }

    fn write(&self, name: &str, public: &str, key: &KeyPair) -> Result<Files> {
        let file = |extension| self.directory.join(format!("{name}.{extension}"));
        let files = Files {
            cert: file("crt"),
            key: file("key"),
        };
        write(&files.cert, public)?;
        write(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

fn params(user: User<'_>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user.name);
    if let Some(group) = user.group {
        name.push(DnType::OrganizationName, group);
    }
    params.distinguished_name = name;
    params
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
