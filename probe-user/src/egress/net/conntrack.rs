//! Conntrack entries of an address that the node has released.
//!
//! An established flow goes on leaving from the address that its entry names, whatever became of
//! the rule that made it: the entries have to go.

use std::io;
use std::net::IpAddr;

use netlink_packet_netfilter::conntrack::{ConntrackAttribute, ConntrackMessage, IPTuple, Tuple};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};
use nix::libc;
use rtnetlink::packet_core::{NLM_F_ACK, Nla};

use super::NetError;
use super::netfilter::{Message, Netfilter};

/// Identity and zone of an entry: what has to be repeated to delete that very entry.
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;

/// A packet that was under way while the rules changed may bring an entry back: the table is looked
/// through until it has none, this often at most.
const PASSES: usize = 4;

/// Deletes every entry that has `address` on either side. Returns how many there were. Blocking;
/// takes about a second per million entries in the table.
pub(crate) fn flush(address: IpAddr) -> Result<u64, NetError> {
    let failed = |source| NetError::Netfilter {
        action: format!("delete the conntrack entries of {address}"),
        source,
    };
    let socket = Netfilter::open()?;
    let mut deleted = 0;
    for _ in 0..PASSES {
        let entries = entries(&socket, address).map_err(failed)?;
        if entries.is_empty() {
            return Ok(deleted);
        }
        for entry in entries {
            deleted += u64::from(delete(&socket, address, entry).map_err(failed)?);
        }
    }
    let source = io::Error::other("new ones keep coming");
    Err(failed(source))
}

fn entries(socket: &Netfilter, address: IpAddr) -> io::Result<Vec<Vec<ConntrackAttribute>>> {
    let mut found = Vec::new();
    let all = message(address, ConntrackMessage::Get(Vec::new()));
    socket.dump(all, |entry| {
        if let NetfilterMessageInner::Conntrack(ConntrackMessage::New(attributes)) = entry.inner
            && attributes.iter().any(|attribute| names(attribute, address))
        {
            found.push(attributes);
        }
    })?;
    Ok(found)
}

fn names(attribute: &ConntrackAttribute, address: IpAddr) -> bool {
    let (ConntrackAttribute::CtaTupleOrig(tuples) | ConntrackAttribute::CtaTupleReply(tuples)) =
        attribute
    else {
        return false;
    };
    let is_address = |part: &IPTuple| match part {
        IPTuple::SourceAddress(it) | IPTuple::DestinationAddress(it) => *it == address,
        _ => false,
    };
    tuples.iter().any(|tuple| match tuple {
        Tuple::Ip(parts) => parts.iter().any(is_address),
        _ => false,
    })
}

/// Whether there was still such an entry.
fn delete(
    socket: &Netfilter,
    address: IpAddr,
    mut entry: Vec<ConntrackAttribute>,
) -> io::Result<bool> {
    entry.retain(|attribute| match attribute {
        ConntrackAttribute::CtaTupleOrig(_) => true,
        ConntrackAttribute::Other(other) => matches!(other.kind(), CTA_ID | CTA_ZONE),
        _ => false,
    });
    let mut request = message(address, ConntrackMessage::Delete(entry));
    request.header.flags = NLM_F_ACK;
    match socket.request(&mut [request]) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        other => other.map(|()| true),
    }
}

fn message(address: IpAddr, message: ConntrackMessage) -> Message {
    let family = match address {
        IpAddr::V4(_) => NetfilterProtoFamily::IPv4,
        IpAddr::V6(_) => NetfilterProtoFamily::IPv6,
    };
    NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), message).into()
}
