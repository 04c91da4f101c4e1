//! The gRPC service of an agent.

use std::future::Future;

use tonic::{Request, Response, Status};

use super::proto::agent_server::Agent;
use super::proto::{ApplyReport, ApplyRequest, StatusRequest};
use super::{Push, Report};

/// Why a node does not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It must not: the push is older than what is in force, or meant for another incarnation.
    #[error("{0}")]
    Stale(String),
    /// It cannot, now.
    #[error("{0}")]
    Unable(String),
}

/// The node that is controlled.
pub trait Node: Send + Sync + 'static {
    /// Makes the node hold what `push` says, unless that is stale.
    fn apply(&self, push: Push) -> impl Future<Output = Result<Report, Refusal>> + Send;

    /// What the node holds.
    fn report(&self) -> Report;
}

pub(super) struct Service<N>(pub(super) N);

#[tonic::async_trait]
impl<N: Node> Agent for Service<N> {
    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<ApplyReport>, Status> {
        let push = Push::try_from(request.into_inner())
            .map_err(|malformed| Status::invalid_argument(malformed.to_string()))?;
        let epoch = push.desired.epoch;
        match self.0.apply(push).await {
            Ok(report) => Ok(Response::new(report.into())),
            Err(refusal) => {
                tracing::warn!(epoch, %refusal, "a push was refused");
                Err(match refusal {
                    Refusal::Stale(why) => Status::failed_precondition(why),
                    Refusal::Unable(why) => Status::internal(why),
                })
            }
        }
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<ApplyReport>, Status> {
        Ok(Response::new(self.0.report().into()))
    }
}
