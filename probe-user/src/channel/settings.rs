//! What both daemons' settings say of the channel's security.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Credentials, Security, TlsError, TlsFiles};
use crate::settings::Invalid;

/// How the channel is to be secured, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityChoice {
    /// Settings `control.ca_file`, `control.cert_file` and `control.key_file`.
    Mutual(TlsFiles),
    /// Setting `control.plaintext`.
    Plaintext,
}

impl SecurityChoice {
    /// The choice that these settings make; `None`: there shall be no channel. `peer`: see
    /// [`TlsFiles::peer`].
    ///
    /// # Errors
    ///
    /// If only some of the files are given, or files and `plaintext`.
    pub fn of(
        ca: Option<&Path>,
        cert: Option<&Path>,
        key: Option<&Path>,
        plaintext: bool,
        peer: Option<&str>,
    ) -> Result<Option<Self>, Invalid> {
        match (ca, cert, key) {
            (None, None, None) => Ok(plaintext.then_some(Self::Plaintext)),
            (Some(ca), Some(cert), Some(key)) if !plaintext => {
                let [ca, cert, key] = [ca, cert, key].map(PathBuf::from);
                let peer = peer.map(str::to_owned);
                Ok(Some(Self::Mutual(TlsFiles {
                    ca,
                    cert,
                    key,
                    peer,
                })))
            }
            (Some(_), Some(_), Some(_)) => Err(Invalid::new(
                "control.plaintext",
                true,
                "must be false where certificates are given",
            )),
            _ => {
                let files = [("ca_file", ca), ("cert_file", cert), ("key_file", key)];
                let missing = files.iter().find(|(_, path)| path.is_none());
                let name = missing.map_or("ca_file", |(name, _)| name);
                Err(Invalid::new(
                    format!("control.{name}"),
                    "unset",
                    "ca_file, cert_file and key_file are needed together",
                ))
            }
        }
    }

    /// Reads the files, if there are any.
    ///
    /// # Errors
    ///
    /// Names the file that is of no use, and why.
    pub fn open(self) -> Result<Security, TlsError> {
        Ok(match self {
            Self::Mutual(files) => Security::Mutual(Arc::new(Credentials::open(files)?)),
            Self::Plaintext => Security::Plaintext,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Option<&Path> = None;

    fn file() -> Option<&'static Path> {
        Some(Path::new("x.pem"))
    }

    #[test]
    fn without_settings_there_is_no_channel() {
        assert_eq!(SecurityChoice::of(NONE, NONE, NONE, false, None), Ok(None));
    }

    #[test]
    fn the_channel_is_plain_only_if_that_is_said() {
        let choice = SecurityChoice::of(NONE, NONE, NONE, true, None);
        assert_eq!(choice, Ok(Some(SecurityChoice::Plaintext)));
        let choice = SecurityChoice::of(file(), file(), file(), false, None);
        assert!(matches!(choice, Ok(Some(SecurityChoice::Mutual(_)))));
    }

    #[test]
    fn half_a_choice_is_refused_with_the_key() {
        let refusal = |cert, plaintext| {
            let choice = SecurityChoice::of(file(), cert, file(), plaintext, None);
            choice.unwrap_err().to_string()
        };
        let error = refusal(NONE, false);
        assert!(error.contains("`control.cert_file`"), "{error}");
        let error = refusal(file(), true);
        assert!(error.contains("`control.plaintext`"), "{error}");
    }
}
