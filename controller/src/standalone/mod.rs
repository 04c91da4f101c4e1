//! The controller without a cluster manager: one file says which nodes there are, another keeps
//! their states over a restart.

mod keeper;
mod nodes;
mod reload;
mod rotation;
mod run;
mod state_file;

pub mod keygen;

pub use self::nodes::{NodesError, Problem, Resolved, resolve};
pub use self::run::StandaloneError;
pub use self::state_file::{Kept, StateFile, StateFileError};

pub(crate) use self::run::run;
