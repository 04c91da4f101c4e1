//! Certificates and keys in use, followed as their files change.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, ServerConfig};

use super::files::Material;
use super::followed::{Files, Followed};
use super::{CertFiles, TlsError, TlsFiles};
use super::{client_config, mutual_server_config, server_config};
use crate::channel::Identity;

/// A daemon's certificates and key. The files are read again when they have changed, so that each
/// new connection uses what they hold then; if that is of no use, what they held before.
pub struct Credentials(Followed<TlsFiles>);

/// What a daemon's files make.
pub(super) struct Mutual {
    material: Material,
    server: Arc<ServerConfig>,
}

impl Files for TlsFiles {
    type Made = Mutual;

    fn paths(&self) -> Vec<&Path> {
        vec![&self.cert, &self.key, &self.ca]
    }

    fn make(&self) -> Result<Mutual, TlsError> {
        let material = self.read()?;
        let controller = self.expect(Identity::Controller);
        let server = mutual_server_config(&material, controller)
            .map_err(|error| self.own().unusable(error))?;
        Ok(Mutual {
            material,
            server: Arc::new(server),
        })
    }
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Names the file that is of no use, and why.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        Followed::open(files).map(Self)
    }

    /// What an agent serves with: accepts nobody but controllers.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.0.get().server.clone()
    }

    /// What a controller calls with: accepts nobody but the node with this name.
    ///
    /// # Errors
    ///
    /// If certificate and key cannot be used.
    pub fn client(&self, node: &str) -> Result<ClientConfig, TlsError> {
        let files = self.0.files();
        let node = files.expect(Identity::Node(node.to_owned()));
        client_config(&self.0.get().material, node).map_err(|error| files.own().unusable(error))
    }
}

/// The certificate of a server that anybody may call; followed like [`Credentials`].
pub struct ServerCertificate(Followed<CertFiles>);

impl Files for CertFiles {
    type Made = Arc<ServerConfig>;

    fn paths(&self) -> Vec<&Path> {
        vec![&self.cert, &self.key]
    }

    fn make(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let config = server_config(&self.read()?).map_err(|error| self.unusable(error))?;
        Ok(Arc::new(config))
    }
}

impl ServerCertificate {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Names the file that is of no use, and why.
    pub fn open(files: CertFiles) -> Result<Self, TlsError> {
        Followed::open(files).map(Self)
    }

    /// What to serve with.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.get())
    }
}
