//! What is told to people elsewhere than in the log.

use tokio::sync::mpsc::UnboundedSender;

use crate::failover::Event;
use crate::monitor::Notice;

/// Something to tell people.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// Of a node.
    Node(Notice),
    /// Of egress IPs; only whoever decides has any.
    Egress(Event),
}

/// Whoever tells people, if there is anyone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Herald(Option<UnboundedSender<News>>);

impl From<UnboundedSender<News>> for Herald {
    fn from(sender: UnboundedSender<News>) -> Self {
        Self(Some(sender))
    }
}

impl Herald {
    /// Has it told.
    pub(crate) fn tell(&self, news: impl FnOnce() -> News) {
        if let Some(sender) = &self.0 {
            // Nobody is told any more when the controller ends.
            let _ = sender.send(news());
        }
    }
}
