//! The control channel, from the controller's side: tells agents what their nodes shall hold and what
//! they shall do as witnesses, and asks them about other nodes.
//!
//! [`AgentPool`] keeps a task for each node, so that no agent delays another; [`Asker`] has
//! connections of its own, so that no push delays a question. They decide nothing: what to tell and to
//! ask comes from whoever owns them, and what agents answer goes back there.

mod agent;
mod ask;
mod authority;
mod connect;
mod lanes;
mod link;
mod order;
mod pool;

pub use self::agent::{Answer, Failure, Outcome};
pub use self::ask::{AskFailure, Asker};
pub use self::authority::{AuthorityError, Certified, Pair};
pub use self::order::{CallError, Order};
pub use self::pool::AgentPool;
