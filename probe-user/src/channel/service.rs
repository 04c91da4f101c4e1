//! The gRPC service of an agent.

use std::future::{Future, ready};

use tonic::{Request, Response, Status};

use super::proto;
use super::proto::agent_server::Agent;
use super::proto::{ApplyReport, ApplyRequest, StatusRequest};
use super::{AskReport, Duty, KeyPush, Malformed, Push, Question, Report, WitnessReport};
use crate::logging::in_words;
use crate::tunnels::{TunnelQuestion, TunnelReport};

/// Why a node does not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It must not: what it was told is older than what is in force, or meant for another incarnation
    /// or instance.
    #[error("{0}")]
    Stale(String),
    /// It never will: what it was told makes no sense for this node.
    #[error("{0}")]
    Senseless(String),
    /// It cannot, now.
    #[error("{0}")]
    Unable(String),
}

/// The node that is controlled.
pub trait Node: Send + Sync + 'static {
    /// Makes the node hold what `push` says, unless that is stale.
    fn apply(&self, push: Push) -> impl Future<Output = Result<Report, Refusal>> + Send;

    /// Has the node answer probes with exactly these keys, now and after a restart, unless they are
    /// of an older term.
    fn replace_keys(&self, push: KeyPush) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// What the node holds.
    fn report(&self) -> Report;

    /// Makes the node do exactly this duty as a witness, unless that is stale. Returns once the floors
    /// are stored. Unless it says otherwise, a node is no witness.
    fn witness(&self, _duty: Duty) -> impl Future<Output = Result<WitnessReport, Refusal>> + Send {
        ready(Err(no_witness()))
    }

    /// What the node has counted of its tunnels. Unless it says otherwise, it counts none.
    fn tunnels(
        &self,
        _question: TunnelQuestion,
    ) -> impl Future<Output = Result<TunnelReport, Refusal>> + Send {
        ready(Ok(TunnelReport::default()))
    }

    /// Whether the node hears another one.
    fn ask(&self, _question: Question) -> impl Future<Output = Result<AskReport, Refusal>> + Send {
        ready(Err(no_witness()))
    }
}

fn no_witness() -> Refusal {
    Refusal::Unable("this node is no witness".to_owned())
}

pub(super) struct Service<N>(pub(super) N);

#[tonic::async_trait]
impl<N: Node> Agent for Service<N> {
    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<ApplyReport>, Status> {
        let push = Push::try_from(request.into_inner()).map_err(malformed)?;
        let epoch = push.desired.epoch;
        let report = self.0.apply(push).await.inspect_err(|refusal| {
            tracing::warn!(epoch, %refusal, "a push was refused");
        })?;
        Ok(Response::new(report.into()))
    }

    async fn replace_keys(
        &self,
        request: Request<proto::ReplaceKeysRequest>,
    ) -> Result<Response<proto::ReplaceKeysReply>, Status> {
        let push = KeyPush::try_from(request.into_inner()).map_err(malformed)?;
        let term = push.term;
        self.0.replace_keys(push).await.inspect_err(|refusal| {
            tracing::warn!(term, %refusal, "probe keys were refused");
        })?;
        Ok(Response::new(proto::ReplaceKeysReply {}))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<ApplyReport>, Status> {
        Ok(Response::new(self.0.report().into()))
    }

    async fn tunnels(
        &self,
        request: Request<proto::TunnelsRequest>,
    ) -> Result<Response<proto::TunnelsReport>, Status> {
        let question = TunnelQuestion::try_from(request.into_inner()).map_err(malformed)?;
        Ok(Response::new(self.0.tunnels(question).await?.into()))
    }

    async fn witness(
        &self,
        request: Request<proto::WitnessRequest>,
    ) -> Result<Response<proto::WitnessReport>, Status> {
        let duty = Duty::try_from(request.into_inner()).map_err(malformed)?;
        let version = duty.version;
        let report = self.0.witness(duty).await.inspect_err(|refusal| {
            tracing::warn!(version, %refusal, "a witness's duty was refused");
        })?;
        Ok(Response::new(report.into()))
    }

    async fn ask(
        &self,
        request: Request<proto::AskRequest>,
    ) -> Result<Response<proto::AskReport>, Status> {
        let question = Question::try_from(request.into_inner()).map_err(malformed)?;
        let report = self.0.ask(question).await?;
        Ok(Response::new(report.into()))
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stale(why) => Self::failed_precondition(why),
            Refusal::Senseless(why) => Self::invalid_argument(why),
            Refusal::Unable(why) => Self::internal(why),
        }
    }
}

fn malformed(malformed: Malformed) -> Status {
    Status::invalid_argument(in_words(&malformed))
}
