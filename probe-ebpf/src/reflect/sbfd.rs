//! S-BFD (RFC 7880, RFC 7881), where configured.

use super::datagram::Datagram;
use super::{Node, source};
use crate::frame::Frame;
use crate::maps::ProbeConfig;
use crate::outcome::Outcome;
use crate::wire::sbfd::{Packet, SBFD_LEN};

/// Hop limit of S-BFD replies (RFC 7881 section 5).
const HOP_LIMIT: u8 = 255;

#[inline(always)]
pub(super) fn reflect(
    frame: &mut Frame,
    datagram: &Datagram,
    config: &ProbeConfig,
    node: &impl Node,
) -> Result<Outcome, Outcome> {
    source::check_allowed(datagram, config)?;
    if datagram.length != SBFD_LEN {
        return Err(Outcome::MalformedSbfd);
    }
    let offset = datagram.payload();
    let mut packet: Packet = frame.read(offset).map_err(|_| Outcome::MalformedSbfd)?;
    answer(&mut packet, config, node)?;
    frame
        .write(offset, packet)
        .map_err(|_| Outcome::MalformedSbfd)?;
    datagram
        .turn_around(frame, HOP_LIMIT, packet.checksum())
        .map_err(|_| Outcome::MalformedSbfd)?;
    Ok(Outcome::AnsweredSbfd)
}

/// Turns an initiator's packet into the reflector's.
#[inline(always)]
pub fn answer(packet: &mut Packet, config: &ProbeConfig, node: &impl Node) -> Result<(), Outcome> {
    if !packet.is_well_formed() {
        return Err(Outcome::MalformedSbfd);
    }
    if !packet.is_demand() {
        return Err(Outcome::SbfdNotDemand);
    }
    if packet.your_discriminator() != config.sbfd_discriminator {
        return Err(Outcome::SbfdDiscriminator);
    }
    let beat = node.beat().ok_or(Outcome::Unconfigured)?;
    packet.answer(beat.is_up(node.now()), config.sbfd_min_rx_us);
    Ok(())
}
