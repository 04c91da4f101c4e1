//! What is made of files, and made anew as they change.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};

use super::TlsError;
use super::files::Stamp;
use crate::logging::in_words;

/// Files, and what is made of them.
pub(super) trait Files {
    type Made;

    /// All of them, the certificate's first.
    fn paths(&self) -> Vec<&Path>;

    /// Reads them.
    fn make(&self) -> Result<Self::Made, TlsError>;
}

/// What some files make. They are read again when they have changed; if what they hold then is of
/// no use, it is what they held before.
pub(super) struct Followed<F: Files> {
    files: F,
    present: Mutex<Present<F::Made>>,
}

struct Present<T> {
    stamp: Stamp,
    made: Arc<T>,
}

impl<F: Files> Followed<F> {
    pub(super) fn open(files: F) -> Result<Self, TlsError> {
        let present = Present::read(&files)?;
        Ok(Self {
            files,
            present: Mutex::new(present),
        })
    }

    pub(super) fn files(&self) -> &F {
        &self.files
    }

    pub(super) fn get(&self) -> Arc<F::Made> {
        // It is replaced as a whole or not at all.
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.follow(&self.files);
        present.made.clone()
    }
}

impl<T> Present<T> {
    fn read(files: &impl Files<Made = T>) -> Result<Self, TlsError> {
        // Taken first: a file that changes while it is read is read again next time.
        let stamp = Stamp::of(&files.paths());
        Ok(Self {
            stamp,
            made: Arc::new(files.make()?),
        })
    }

    fn follow(&mut self, files: &impl Files<Made = T>) {
        let paths = files.paths();
        let stamp = Stamp::of(&paths);
        if stamp == self.stamp {
            return;
        }
        let cert = paths.first().map(|path| path.display());
        match Self::read(files) {
            Ok(new) => {
                info!(
                    cert = cert.map(tracing::field::display),
                    "certificates were replaced"
                );
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
