//! The controller's HTTP interface, from the other side.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

use crate::api;

/// A controller that does not answer within this time is taken for gone.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Which controller to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct ControllerOptions {
    /// Address of the controller's HTTP interface.
    #[arg(
        long,
        value_name = "URL",
        env = "PULSEPATH_CONTROLLER",
        default_value = "http://127.0.0.1:9865"
    )]
    controller: Url,
}

/// A client of one controller.
pub(crate) struct Controller {
    base: Url,
    client: Client,
}

impl Controller {
    pub(crate) fn new(options: ControllerOptions) -> anyhow::Result<Self> {
        // The interface is the controller's own: a proxy for the web has no business there.
        let client = Client::builder()
            .connect_timeout(TIMEOUT)
            .no_proxy()
            .build()?;
        Ok(Self {
            base: options.controller,
            client,
        })
    }

    /// The controller's address, for messages.
    pub(crate) fn url(&self) -> &Url {
        &self.base
    }

    /// Every node.
    pub(crate) async fn nodes(&self) -> anyhow::Result<api::NodeList> {
        self.ask(Method::GET, &["nodes"]).await
    }

    /// Every gateway.
    pub(crate) async fn gateways(&self) -> anyhow::Result<api::GatewayList> {
        self.ask(Method::GET, &["gateways"]).await
    }

    /// Why a node or an egress IP is as it is.
    pub(crate) async fn explain(&self, subject: &str) -> anyhow::Result<api::Explanation> {
        self.ask(Method::GET, &["explain", subject]).await
    }

    /// What flows through nodes' tunnels.
    pub(crate) async fn tunnels(&self) -> anyhow::Result<api::TunnelMatrix> {
        self.ask(Method::GET, &["tunnels"]).await
    }

    /// Drains a node, or ends that; returns once it is recorded.
    pub(crate) async fn set_drained(
        &self,
        node: &str,
        drained: bool,
    ) -> anyhow::Result<api::Drained> {
        let action = if drained { "drain" } else { "undrain" };
        self.ask(Method::POST, &["nodes", node, action]).await
    }

    /// The stream of transitions. Only its beginning is waited for with a limit.
    pub(crate) async fn transitions(&self) -> anyhow::Result<Response> {
        let response =
            tokio::time::timeout(TIMEOUT, self.send(Method::GET, &["transitions"])).await;
        response.map_err(|_| self.silent())?
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &[&str]) -> anyhow::Result<T> {
        let ask = async { read(self.send(method, path).await?).await };
        let answer = tokio::time::timeout(TIMEOUT, ask).await;
        answer.map_err(|_| self.silent())?
    }

    fn silent(&self) -> anyhow::Error {
        anyhow!(
            "no answer from the controller at {} within {TIMEOUT:?}",
            self.base
        )
    }

    async fn send(&self, method: Method, path: &[&str]) -> anyhow::Result<Response> {
        let mut url = self.base.clone();
        // Names may hold characters that a URL must not.
        url.path_segments_mut()
            .map_err(|()| anyhow!("{} is not the address of a controller", self.base))?
            .pop_if_empty()
            .push("v1")
            .extend(path);
        let response = self.client.request(method, url.clone()).send().await;
        let response = response
            .map_err(root_cause)
            .with_context(|| format!("cannot reach the controller at {}", self.base))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status => {
                let said = read::<api::Error>(response).await.map(|error| error.error);
                bail!(
                    "{url}: {status}{}",
                    said.map_or(String::new(), |said| format!(": {said}"))
                )
            }
        }
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> anyhow::Result<T> {
    let url = response.url().clone();
    let read = response.json().await.map_err(root_cause);
    read.with_context(|| format!("{url} does not answer as a Pulsepath controller does"))
}

/// The last of an error's causes: those before it only say that sending or reading failed.
pub(crate) fn root_cause(error: reqwest::Error) -> anyhow::Error {
    anyhow!("{}", anyhow::Error::new(error).root_cause())
}
