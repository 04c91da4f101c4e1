//! A client of the API server, for tests: blocking, and inside the API server's namespace.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::sched::{CloneFlags, setns};
use tokio::runtime::{Builder, Runtime};

use crate::Netns;

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls the API server. All of its sockets are made by threads inside a namespace.
pub struct Client {
    runtime: Runtime,
    client: kube::Client,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client whom `kubeconfig` names, inside `netns`.
    ///
    /// # Errors
    /// The file is no such file.
    pub fn new(netns: &Netns, kubeconfig: &Path) -> Result<Self> {
        let runtime = runtime_inside(netns)?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let connect = async move {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            anyhow::Ok(kube::Client::try_from(config)?)
        };
        let client = runtime.block_on(runtime.spawn(connect))??;
        Ok(Self { runtime, client })
    }

    /// Waits for what `call` does with the client.
    ///
    /// # Errors
    /// The API server's, or it does not answer within 20 s.
    pub fn call<T, F>(&self, call: impl FnOnce(kube::Client) -> F) -> Result<T>
    where
        F: Future<Output = kube::Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let limited = {
            let _inside = self.runtime.enter();
            tokio::time::timeout(PATIENCE, call(self.client.clone()))
        };
        let answer = self.runtime.block_on(self.runtime.spawn(limited))?;
        Ok(answer.context("the API server takes too long")??)
    }
}

/// A runtime whose tasks are inside `netns`: what runs on the thread that waits for them is not.
fn runtime_inside(netns: &Netns) -> Result<Runtime> {
    let file =
        File::open(netns.path()).with_context(|| format!("open {}", netns.path().display()))?;
    let file = Arc::new(file);
    Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(move || {
            if let Err(error) = setns(&*file, CloneFlags::CLONE_NEWNET) {
                eprintln!("a client's thread cannot enter its namespace: {error}");
            }
        })
        .enable_all()
        .build()
        .context("start a client's thread")
}
