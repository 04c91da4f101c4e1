//! Mutual TLS 1.3 between controllers and agents, both of one private authority.
//!
//! Names of hosts play no part: a node's certificate holds the node's name and a controller's its
//! role (see [`Identity`]), or a name that all of a kind share, and each side accepts nobody but the one
//! it expects. Besides, the TLS of
//! servers that anybody may call.

mod credentials;
mod files;
mod followed;
mod verify;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub use credentials::{Credentials, ServerCertificate};
pub use files::{CertFiles, TlsError, TlsFiles};

use super::Identity;
use files::{Material, Pair};
use verify::{Controllers, OneNode};

/// The protocol that is negotiated (ALPN).
const HTTP2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// For an agent: accepts `controller`.
fn mutual_server_config(
    material: &Material,
    controller: Identity,
) -> Result<ServerConfig, rustls::Error> {
    let provider = provider();
    let verifier = Controllers::new(controller, material.roots.clone(), provider.clone())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(material.own.chain.clone(), material.own.key.clone_key())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    // A resumed session would not look at the peer's certificate again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// For a server that anybody may call.
fn server_config(pair: &Pair) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(pair.chain.clone(), pair.key.clone_key())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

/// For a controller: accepts the node with this name.
fn client_config(material: &Material, node: Identity) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let verifier = OneNode::new(node, material.roots.clone(), &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(material.own.chain.clone(), material.own.key.clone_key())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Roots that are trusted.
type Roots = Arc<RootCertStore>;
