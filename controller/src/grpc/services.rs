//! `pulsepath.health.v1.Services`.

use tonic::{Request, Response, Status};

use super::node_health::unix_ms;
use super::proto::services_server::Services;
use super::proto::{ListServicesRequest, ListServicesResponse, Service as Message};
use crate::services::Picks;

pub(super) struct Service {
    pub(super) picks: Picks,
}

#[tonic::async_trait]
impl Services for Service {
    async fn list(
        &self,
        _: Request<ListServicesRequest>,
    ) -> Result<Response<ListServicesResponse>, Status> {
        let message = |(name, pick): (&String, &crate::services::Pick)| Message {
            name: name.clone(),
            node: pick.node.clone(),
            since_unix_ms: unix_ms(pick.since),
        };
        let services = self.picks.borrow().iter().map(message).collect();
        Ok(Response::new(ListServicesResponse { services }))
    }
}
