//! What agents are told, each kind by a call of its own.

use std::time::Duration;

use probe_user::channel::proto::agent_client::AgentClient;
use probe_user::channel::{Duty, KeyPush, Malformed, Push, Report, WitnessReport};
use probe_user::keys::NodeKey;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Something that an agent is told until it has done it: the newest one alone counts.
pub trait Order: Clone + PartialEq + Send + Sync + 'static {
    /// What an agent answers that has done it.
    type Report: Send + 'static;

    /// How often an agent that has done it is told again; `None`: not before another order, or before
    /// the node was UNREACHABLE.
    const REFRESH: Option<Duration> = Some(Duration::from_secs(5));

    /// The longest pause between two attempts.
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);

    /// By which an answer names it.
    fn version(&self) -> u64;

    /// Tells it.
    ///
    /// # Errors
    ///
    /// If the agent did not do it, or answered what makes no sense.
    fn tell(
        self,
        client: AgentClient<Channel>,
    ) -> impl Future<Output = Result<Self::Report, CallError>> + Send;
}

/// What came of a call instead of an answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The agent's error, or our own side's.
    #[error(transparent)]
    Status(#[from] Status),
    /// The answer makes no sense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Order for Push {
    type Report = Report;

    fn version(&self) -> u64 {
        self.desired.epoch
    }

    async fn tell(self, mut client: AgentClient<Channel>) -> Result<Report, CallError> {
        let report = client.apply(Request::new(self.into())).await?;
        Ok(Report::try_from(report.into_inner())?)
    }
}

impl Order for Duty {
    type Report = WitnessReport;

    fn version(&self) -> u64 {
        self.version
    }

    async fn tell(self, mut client: AgentClient<Channel>) -> Result<WitnessReport, CallError> {
        let report = client.witness(Request::new(self.into())).await?;
        Ok(report.into_inner().into())
    }
}

impl Order for KeyPush {
    /// The keys that the node has now.
    type Report = Vec<NodeKey>;

    /// Nothing but another order changes a node's keys, and most nodes are told nothing else.
    const REFRESH: Option<Duration> = None;

    /// Agents that never hold an egress IP may have no control channel at all.
    const LONGEST_PAUSE: Duration = Duration::from_secs(30);

    fn version(&self) -> u64 {
        self.term.into()
    }

    async fn tell(self, mut client: AgentClient<Channel>) -> Result<Vec<NodeKey>, CallError> {
        let keys = self.keys.clone();
        client.replace_keys(Request::new(self.into())).await?;
        Ok(keys)
    }
}
