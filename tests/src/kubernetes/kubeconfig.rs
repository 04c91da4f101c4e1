//! How clients reach the API server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::authority::{Authority, User};

/// Where the API server is, and whose word on certificates counts.
pub(super) struct Access<'a> {
    pub(super) authority: &'a Authority,
    /// Such as `https://192.0.2.1:443`.
    pub(super) server: String,
    pub(super) directory: &'a Path,
}

impl Access<'_> {
    /// Writes the file by which `user` is a client; its name is `name`.kubeconfig.
    pub(super) fn write(&self, name: &str, user: User<'_>) -> Result<PathBuf> {
        let files = self.authority.client(name, user)?;
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{ "name": name, "context": { "cluster": "pulsepath", "user": name } }],
            "clusters": [{ "name": "pulsepath", "cluster": {
                "server": self.server,
                "certificate-authority": self.authority.certificate(),
            } }],
            "users": [{ "name": name, "user": {
                "client-certificate": files.cert,
                "client-key": files.key,
            } }],
        });
        let path = self.directory.join(format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string())
            .with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}
