//! Whether an answer may go to where a packet says it comes from.

use super::datagram::Datagram;
use crate::maps::{Address, ProbeConfig};
use crate::outcome::Outcome;

/// Refuses sources that no answer may go to (RFC 7881 section 7).
#[inline(always)]
pub(super) fn check_answerable(datagram: &Datagram) -> Result<(), Outcome> {
    if datagram.source_port == 0 || !is_unicast(datagram.source) {
        return Err(Outcome::WrongSource);
    }
    Ok(())
}

/// Refuses what could start two reflectors answering each other, and sources that are not
/// configured. For packets that no MAC vouches for.
#[inline(always)]
pub(super) fn check_allowed(datagram: &Datagram, config: &ProbeConfig) -> Result<(), Outcome> {
    check_answerable(datagram)?;
    if datagram.source_port == datagram.destination_port {
        return Err(Outcome::FromReflector);
    }
    if !config.allows_source(&datagram.source) {
        return Err(Outcome::SourceNotAllowed);
    }
    Ok(())
}

#[inline(always)]
const fn is_unicast(address: Address) -> bool {
    let (high, low) = address.to_host();
    if high == 0 && low >> 32 == 0xffff {
        let v4 = low as u32;
        return v4 != 0 && v4 != u32::MAX && v4 >> 28 != 0xe;
    }
    (high | low) != 0 && high >> 56 != 0xff
}
