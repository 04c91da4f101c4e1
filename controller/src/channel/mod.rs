//! The control channel, from the controller's side: tells agents what their nodes shall hold, and what
//! they shall do as witnesses.
//!
//! [`AgentPool`] keeps a task for each node, so that no agent delays another. It decides nothing:
//! what to tell comes from whoever owns it, and what agents answer goes back there.

mod agent;
mod authority;
mod connect;
mod lanes;
mod link;
mod order;
mod pool;

pub use self::agent::{Answer, Failure, Outcome};
pub use self::authority::{AuthorityError, Certified, Pair};
pub use self::order::{CallError, Order};
pub use self::pool::AgentPool;
