//! The fence's packet logic: which packets may leave.
//!
//! [`Claims`] reads from which addresses a packet is sent, or which it says are the node's; [`judge`]
//! holds them against what is guarded. A guarded address that is the node's own may be used while
//! the lease is held, one that is not never; whatever claims no guarded address is left alone.
//!
//! What passes is not said to be allowed: programs behind the fence still decide.

mod claims;
mod outcome;
#[cfg(test)]
mod tests;

pub use claims::{Claims, Family, LinkLayer};
pub use outcome::FenceOutcome;

use crate::maps::{Address, Guard};
use outcome::Standing;

/// What the fence knows, and its clock.
pub trait Guards {
    /// How an address is guarded, if it is.
    fn guard(&self, address: Address) -> Option<Guard>;
    /// When the node's lease ends or ended: boot clock, ns; 0 = it never had one.
    fn lease_expires(&self) -> u64;
    /// Boot clock, ns.
    fn now(&self) -> u64;
}

/// What becomes of a packet that claims these addresses. The clock is read, once, only if they are
/// guarded and the node's own.
#[inline(always)]
pub fn judge(claims: &Claims, guards: &impl Guards) -> FenceOutcome {
    let by_source = standing(claims.source, guards);
    let by_target = standing(claims.target, guards);
    let standing = match by_source.max(by_target) {
        Standing::Own if guards.now() >= guards.lease_expires() => Standing::NoLease,
        other => other,
    };
    FenceOutcome::new(claims.family, standing)
}

#[inline(always)]
fn standing(address: Option<Address>, guards: &impl Guards) -> Standing {
    match address.and_then(|address| guards.guard(address)) {
        None => Standing::Unguarded,
        Some(Guard::Own) => Standing::Own,
        Some(Guard::Shut) => Standing::Shut,
    }
}
