//! What the HTTP interface says of who decides.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use super::egress::EgressHandle;
use crate::api::Error;

/// Who decides.
#[derive(Clone)]
pub(crate) struct Leading {
    /// This controller's decisions.
    pub(crate) egress: EgressHandle,
    /// Who leads, where several controllers could.
    pub(crate) leader: watch::Receiver<Option<String>>,
}

impl Leading {
    /// What this controller decides.
    ///
    /// # Errors
    ///
    /// If it decides nothing: says who does.
    #[expect(clippy::result_large_err, reason = "it is what axum answers with")]
    pub(crate) fn deciding(&self) -> Result<&EgressHandle, Response> {
        if self.egress.leads() {
            return Ok(&self.egress);
        }
        let error = match &*self.leader.borrow() {
            Some(leader) => format!("this controller does not decide: {leader} leads"),
            None => "this controller does not decide, and nobody leads".to_owned(),
        };
        Err((StatusCode::SERVICE_UNAVAILABLE, Json(Error { error })).into_response())
    }

    /// Who leads, where several controllers could.
    pub(crate) fn leader(&self) -> Option<String> {
        self.leader.borrow().clone()
    }
}
