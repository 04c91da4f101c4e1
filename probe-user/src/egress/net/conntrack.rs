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
use rtnetlink::packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, Nla};

use super::NetError;
use super::netfilter::{Message, Netfilter};

/// Identity and zone of an entry: what has to be repeated to delete that very entry.
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const IPCTNL_MSG_CT_GET: u8 = 1;
/// What a list is to be narrowed down to, and by which parts of its tuples.
const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;

/// A packet that was under way while the rules changed may bring an entry back: the table is looked
/// through until it has none, this often at most.
const PASSES: usize = 4;

/// `CTA_FILTER_F_CTA_IP_DST`: of a filter's tuple, the destination counts.
const BY_DESTINATION: u32 = 1 << 1;

/// A direction of a flow. What comes in by one leaves by the other with source and destination
/// exchanged: an entry with the address as a destination is one of packets that leave from it.
#[derive(Clone, Copy)]
enum Direction {
    Original,
    Reply,
}

/// Deletes every entry of packets that leave from `address`. Returns how many there were. Blocking.
///
/// Since Linux 5.8 the kernel looks for IPv4 ones ([cb8aa9a3affb]); an older one ignores that filter
/// and lists the whole table, which takes over a second per million entries. Of IPv6 it lists them all:
/// its filter leaves out those whose address is the one that was asked for (seen in 6.18).
///
/// [cb8aa9a3affb]: https://git.kernel.org/torvalds/c/cb8aa9a3affb
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
    let mut look = |question, directions: &[Direction]| {
        socket.dump(message(address, question), |entry| {
            if let NetfilterMessageInner::Conntrack(ConntrackMessage::New(attributes)) = entry.inner
                && directions
                    .iter()
                    .any(|it| it.leads_to(address, &attributes))
            {
                found.push(attributes);
            }
        })
    };
    match address {
        IpAddr::V4(_) => {
            for direction in Direction::BOTH {
                look(direction.question(address), &[direction])?;
            }
        }
        IpAddr::V6(_) => look(ConntrackMessage::Get(Vec::new()), &Direction::BOTH)?,
    }
    Ok(found)
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Original, Self::Reply];

    /// Asks for entries that lead to `address` in this direction.
    fn question(self, address: IpAddr) -> ConntrackMessage {
        let destination = vec![Tuple::Ip(vec![IPTuple::DestinationAddress(address)])];
        let (tuple, flags) = match self {
            Self::Original => (
                ConntrackAttribute::CtaTupleOrig(destination),
                CTA_FILTER_ORIG_FLAGS,
            ),
            Self::Reply => (
                ConntrackAttribute::CtaTupleReply(destination),
                CTA_FILTER_REPLY_FLAGS,
            ),
        };
        let flags = DefaultNla::new(flags, BY_DESTINATION.to_ne_bytes().to_vec());
        let mut filter = vec![0; flags.buffer_len()];
        flags.emit(&mut filter);
        let mut value = vec![0; tuple.value_len()];
        tuple.emit_value(&mut value);
        // Among its own attributes the crate would not mark the filter as nested.
        ConntrackMessage::Other {
            message_type: IPCTNL_MSG_CT_GET,
            attributes: vec![
                DefaultNla::new(tuple.kind() | NLA_F_NESTED, value),
                DefaultNla::new(CTA_FILTER | NLA_F_NESTED, filter),
            ],
        }
    }

    fn leads_to(self, address: IpAddr, entry: &[ConntrackAttribute]) -> bool {
        let tuples = entry
            .iter()
            .filter_map(|attribute| match (self, attribute) {
                (Self::Original, ConntrackAttribute::CtaTupleOrig(tuples))
                | (Self::Reply, ConntrackAttribute::CtaTupleReply(tuples)) => Some(tuples),
                _ => None,
            });
        let is_address = |part: &IPTuple| match part {
            IPTuple::DestinationAddress(it) => *it == address,
            _ => false,
        };
        tuples.flatten().any(|tuple| match tuple {
            Tuple::Ip(parts) => parts.iter().any(is_address),
            _ => false,
        })
    }
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
