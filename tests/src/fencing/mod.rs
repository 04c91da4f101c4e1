//! Schedules of faults after which nobody may ever have seen two owners of an egress IP.
//!
//! [`Site`] is a scene of which every frame from the egress IP is recorded, while its neighbours ask for
//! it all the time and a client goes on sending to the owner that it had at first. [`SCHEDULES`] says
//! what goes wrong there; [`Variant`] how nodes are fenced and probed meanwhile; [`run_courses`] runs
//! many of them on several sites at once.

mod course;
mod fault;
mod late;
mod provocation;
mod schedules;
mod site;
mod variant;

pub use self::course::{Course, run_courses};
pub use self::fault::{Fault, Part, Stop, Trouble};
pub use self::provocation::Provocation;
pub use self::schedules::{Ends, SCHEDULES, Schedule, TOGETHER, UNFENCED, WITNESSED};
pub use self::site::{Outcome, Place, Site};
pub use self::variant::{Attach, Fencing, Hook, LEASE, Variant};
