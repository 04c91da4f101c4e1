//! A daemon's certificates and key, followed as their files change.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::{ClientConfig, ServerConfig};
use tracing::{info, warn};

use super::files::{Material, Stamp};
use super::{TlsError, TlsFiles, client_config, server_config};
use crate::logging::in_words;

/// A daemon's certificates and key. The files are read again when they have changed, so that each
/// new connection uses what they hold then; if that is of no use, what they held before.
pub struct Credentials {
    files: TlsFiles,
    present: Mutex<Present>,
}

struct Present {
    stamp: Stamp,
    material: Arc<Material>,
    server: Arc<ServerConfig>,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Names the file that is of no use, and why.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let present = Present::read(&files)?;
        Ok(Self {
            files,
            present: Mutex::new(present),
        })
    }

    /// What an agent serves with: accepts nobody but controllers.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.with_present(|present| present.server.clone())
    }

    /// What a controller calls with: accepts nobody but the node with this name.
    ///
    /// # Errors
    ///
    /// If certificate and key cannot be used.
    pub fn client(&self, node: &str) -> Result<ClientConfig, TlsError> {
        let material = self.with_present(|present| present.material.clone());
        client_config(&material, node).map_err(|error| self.files.unusable(error))
    }

    fn with_present<T>(&self, take: impl FnOnce(&Present) -> T) -> T {
        // It is replaced as a whole or not at all.
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.follow(&self.files);
        take(&present)
    }
}

impl Present {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        // Taken first: a file that changes while it is read is read again next time.
        let stamp = files.stamp();
        let material = files.read()?;
        let server = server_config(&material).map_err(|error| files.unusable(error))?;
        Ok(Self {
            stamp,
            material: Arc::new(material),
            server: Arc::new(server),
        })
    }

    fn follow(&mut self, files: &TlsFiles) {
        let stamp = files.stamp();
        if stamp == self.stamp {
            return;
        }
        match Self::read(files) {
            Ok(new) => {
                info!(cert = %files.cert.display(), "certificates were replaced");
                *self = new;
            }
            Err(error) => {
                // Said once: perhaps the other file of a pair is only on its way.
                self.stamp = stamp;
                let error = in_words(&error);
                warn!(
                    error,
                    "certificates are kept, since what replaced them is of no use"
                );
            }
        }
    }
}
