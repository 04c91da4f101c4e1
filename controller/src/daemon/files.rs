//! The files that a controller is configured by, and when they change.

use std::path::PathBuf;
use std::time::Duration;

use probe_user::keys::{ClusterKeys, KeyError};
use probe_user::settings::{self, SettingsError};
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use super::Settings;
use super::watch::FileStamp;

/// Prefix of environment variables that override the file.
const ENVIRONMENT: &str = "PULSEPATH_CONTROLLER";
/// How often the files are looked at. A change is acted upon once a second look finds the same:
/// a file that is still being written is not a new configuration.
const LOOK: Duration = Duration::from_millis(250);

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Overrides one setting, such as `period=50ms`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Why a configuration is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file or a value in it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The cluster key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Whether the settings are accepted. The files that they name are not looked at.
///
/// # Errors
///
/// Names the key of what is wrong.
pub fn check(options: &Options) -> Result<(), SettingsError> {
    settings::load::<Settings>(Some(&options.config), ENVIRONMENT, &options.set).map(drop)
}

/// What the files say.
pub(crate) struct Basis {
    pub(crate) settings: Settings,
    pub(crate) keys: ClusterKeys,
}

/// Follows the files.
pub(crate) struct Files {
    options: Options,
    key_file: PathBuf,
    /// Of the files as they were last acted upon, accepted or not.
    acted: [FileStamp; 2],
    seen: [FileStamp; 2],
}

impl Files {
    /// Loads file, environment and overrides, and the cluster key, to be followed from now on.
    pub(crate) fn open(options: Options) -> Result<(Self, Basis), ConfigError> {
        let mut files = Self {
            options,
            key_file: PathBuf::new(),
            acted: Default::default(),
            seen: Default::default(),
        };
        let basis = files.load()?;
        Ok((files, basis))
    }

    /// Loads them again.
    pub(crate) fn load(&mut self) -> Result<Basis, ConfigError> {
        self.acted = self.stamps();
        let Options { config, set } = &self.options;
        let settings: Settings = settings::load(Some(config), ENVIRONMENT, set)?;
        self.key_file.clone_from(&settings.cluster_key_file);
        self.acted = self.stamps();
        self.seen.clone_from(&self.acted);
        let keys = ClusterKeys::read(&self.key_file)?;
        Ok(Basis { settings, keys })
    }

    /// Waits until they have changed, or `hangup` comes.
    pub(crate) async fn changed(&mut self, hangup: &mut Signal) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look.tick() => {
                    let stamps = self.stamps();
                    let settled = stamps == self.seen;
                    self.seen = stamps;
                    if settled && self.seen != self.acted {
                        return;
                    }
                }
                _ = hangup.recv() => return,
            }
        }
    }

    fn stamps(&self) -> [FileStamp; 2] {
        [
            FileStamp::of(&self.options.config),
            FileStamp::of(&self.key_file),
        ]
    }
}
