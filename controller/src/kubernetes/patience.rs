//! Requests to the API server, none of which is waited for without end.

use std::time::Duration;

use kube::core::Status;

/// So long an answer is waited for. Whatever matters is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a request to the API server came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// It refused, or could not be reached.
    #[error("cannot {what}")]
    Request {
        /// What was asked.
        what: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// No answer came in time.
    #[error("cannot {0}: no answer within {1:?}")]
    Silent(&'static str, Duration),
    /// Another version of the object was found, which is no contradiction: it is to be tried again.
    #[error("an earlier write of which nobody heard has arrived")]
    Again,
}

impl ClientError {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Silent(..) | Self::Again => None,
        }
    }

    /// Whether the object is another one than was expected.
    pub(super) fn is_conflict(&self) -> bool {
        self.status()
            .is_some_and(|status| status.is_conflict() || status.is_already_exists())
    }

    /// Whether there is no such object.
    pub(super) fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }
}

/// Waits for `request`, but not for ever; `what` is being done by it.
pub(super) async fn patiently<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClientError> {
    within(PATIENCE, what, request).await
}

/// Waits for `request` for no longer than `patience`.
pub(super) async fn within<T>(
    patience: Duration,
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(patience, request).await {
        Ok(answer) => answer.map_err(|source| ClientError::Request {
            what,
            source: Box::new(source),
        }),
        Err(_) => Err(ClientError::Silent(what, patience)),
    }
}
