//! Whom each side accepts.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

use super::Roots;
use crate::channel::Identity;

/// A certificate of our authority, but not the one that is expected.
#[derive(thiserror::Error)]
#[error("the certificate does not speak for {0}")]
struct NotFor(Identity);

/// rustls shows other people's errors in this form only.
impl fmt::Debug for NotFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn require(identity: &Identity, certificate: &CertificateDer<'_>) -> Result<(), Error> {
    match identity.is_in(certificate) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let other = OtherError(Arc::new(NotFor(identity.clone())));
            Err(CertificateError::Other(other).into())
        }
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}

/// Accepts controllers.
#[derive(Debug)]
pub(super) struct Controllers {
    controller: Identity,
    chain: Arc<dyn ClientCertVerifier>,
}

impl Controllers {
    pub(super) fn new(
        controller: Identity,
        roots: Roots,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let chain = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { controller, chain })
    }
}

impl ClientCertVerifier for Controllers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .chain
            .verify_client_cert(certificate, intermediates, now)?;
        require(&self.controller, certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Accepts one node, under whatever address it was reached.
#[derive(Debug)]
pub(super) struct OneNode {
    node: Identity,
    roots: Roots,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneNode {
    pub(super) fn new(node: Identity, roots: Roots, provider: &CryptoProvider) -> Self {
        Self {
            node,
            roots,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for OneNode {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        require(&self.node, certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
