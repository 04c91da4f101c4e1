//! `pulsepath-controller crds`: the definitions of the custom resources.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::resources::definitions;

/// Where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Write one file for each resource into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Why definitions were not written.
#[derive(Debug, thiserror::Error)]
pub enum CrdsError {
    /// They have no form in YAML.
    #[error("cannot write a custom resource's definition as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody reads them.
    #[error("cannot print the custom resources' definitions")]
    Print(#[source] io::Error),
}

/// Prints the definitions, or writes them.
///
/// # Errors
///
/// Names what cannot be written.
pub fn crds(options: &Options) -> Result<(), CrdsError> {
    for (name, text) in definitions()? {
        match &options.dir {
            Some(dir) => write(&dir.join(name), &text)?,
            None => io::stdout()
                .write_all(format!("---\n{text}").as_bytes())
                .map_err(CrdsError::Print)?,
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), CrdsError> {
    fs::write(path, text).map_err(|source| CrdsError::File {
        path: path.to_owned(),
        source,
    })
}
