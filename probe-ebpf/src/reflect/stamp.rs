//! Plain STAMP (RFC 8762, unauthenticated, stateless), where configured.

use super::datagram::Datagram;
use super::{HOP_LIMIT, Node, source};
use crate::checksum::Checksum;
use crate::frame::{Frame, Truncated};
use crate::maps::{ProbeConfig, Switch};
use crate::outcome::Outcome;
use crate::wire::ntp::NtpTime;
use crate::wire::stamp::{BASE_LEN, StampBase};

/// Longest payload that is answered, bytes: what fits an Ethernet frame of 1500 bytes over IPv4.
pub const MAX_LEN: usize = 1472;
const CHUNKS: usize = MAX_LEN / 8;

#[inline(always)]
pub(super) fn reflect(
    frame: &mut Frame,
    datagram: &Datagram,
    config: &ProbeConfig,
    node: &impl Node,
) -> Result<Outcome, Outcome> {
    if matches!(config.plain_stamp, Switch::Off) {
        return Err(Outcome::Foreign);
    }
    source::check_allowed(datagram, config)?;
    if datagram.length < BASE_LEN {
        return Err(Outcome::ShortStamp);
    }
    if datagram.length > MAX_LEN {
        return Err(Outcome::LongStamp);
    }
    let offset = datagram.payload();
    if !frame.reaches(offset + datagram.length) {
        return Err(Outcome::ShortStamp);
    }
    let mut base: StampBase = frame.read(offset).map_err(|_| Outcome::ShortStamp)?;
    answer(&mut base, config, node)?;
    frame.write(offset, base).map_err(|_| Outcome::ShortStamp)?;
    let ttl = u32::from(datagram.ttl) << 24;
    frame
        .write(offset + StampBase::LEN, ttl.to_be())
        .map_err(|_| Outcome::ShortStamp)?;
    let sum = sum(frame, offset, datagram.length).map_err(|_| Outcome::ShortStamp)?;
    datagram
        .turn_around(frame, HOP_LIMIT, sum)
        .map_err(|_| Outcome::ShortStamp)?;
    Ok(Outcome::AnsweredStamp)
}

/// Turns the first 40 bytes of a request into those of the reply. The four that follow hold the
/// TTL with which the request came and three zeros; whatever comes then is sent back as it is.
#[inline(always)]
pub fn answer(base: &mut StampBase, config: &ProbeConfig, node: &impl Node) -> Result<(), Outcome> {
    let beat = node.beat().ok_or(Outcome::Unconfigured)?;
    let wall = NtpTime::from_unix_nanos(node.now().wrapping_add(beat.wall_offset_ns));
    base.answer(wall, wall, config.error_estimate);
    Ok(())
}

#[inline(always)]
fn sum(frame: &Frame, offset: usize, length: usize) -> Result<Checksum, Truncated> {
    let mut sum = Checksum::new();
    let mut at = offset;
    for index in 0..CHUNKS {
        if index * 8 + 8 > length {
            break;
        }
        sum.add_u64(frame.read(at)?);
        at += 8;
    }
    if length & 4 != 0 {
        sum.add_u32(frame.read(at)?);
        at += 4;
    }
    if length & 2 != 0 {
        sum.add_u16(frame.read(at)?);
        at += 2;
    }
    if length & 1 != 0 {
        sum.add_u16((u16::from(frame.read::<u8>(at)?) << 8).to_be());
    }
    Ok(sum)
}
