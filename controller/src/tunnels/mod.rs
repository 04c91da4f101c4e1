//! What flows between nodes through their tunnels: evidence that no probe can give.
//!
//! [`Survey`] makes a whole of what the nodes say, purely; [`Collector`] asks them, when somebody
//! wants to know and not otherwise.

mod collect;
mod summary;
mod survey;

pub use collect::{Collector, TunnelEnd};
pub use summary::Summary;
pub use survey::{Heard, Said, Survey};
