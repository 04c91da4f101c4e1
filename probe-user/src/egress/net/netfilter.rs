//! A socket of nfnetlink: requests and their acknowledgements. Blocking.

use std::io;

use netlink_packet_netfilter::NetfilterMessage;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

use super::NetError;

/// How long the kernel may take to answer.
const PATIENCE_SECONDS: i64 = 2;
/// Room for a batch: a whole ruleset is sent at once.
const SEND_BUFFER: usize = 8 << 20;

pub(super) type Message = NetlinkMessage<NetfilterMessage>;

/// A socket that is connected to nfnetlink.
pub(super) struct Netfilter(Socket);

impl Netfilter {
    pub(super) fn open() -> Result<Self, NetError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            let patience = TimeVal::new(PATIENCE_SECONDS, 0);
            setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
            setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER)?;
            Ok(Self(socket))
        };
        open().map_err(|source| NetError::Open {
            kind: "netfilter",
            source,
        })
    }

    /// Sends messages as one packet, and waits until the kernel has taken the last that asks for an
    /// acknowledgement, or has refused any.
    pub(super) fn request(&self, messages: &mut [Message]) -> io::Result<()> {
        let mut packet = Vec::new();
        let mut last = None;
        for (number, message) in (1..).zip(messages) {
            message.header.sequence_number = number;
            message.header.flags |= NLM_F_REQUEST;
            if message.header.flags & NLM_F_ACK != 0 {
                last = Some(number);
            }
            append(&mut packet, message);
        }
        self.0.send(&packet, 0)?;
        while let Some(number) = last {
            for answer in self.receive()? {
                match answer.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) if answer.header.sequence_number == number => {
                        last = None;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Asks for a list, and hands every entry to `each`.
    pub(super) fn dump(
        &self,
        mut message: Message,
        mut each: impl FnMut(NetfilterMessage),
    ) -> io::Result<()> {
        message.header.flags |= NLM_F_REQUEST | NLM_F_DUMP;
        let mut packet = Vec::new();
        append(&mut packet, &mut message);
        self.0.send(&packet, 0)?;
        loop {
            for answer in self.receive()? {
                match answer.payload {
                    NetlinkPayload::InnerMessage(entry) => each(entry),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(()),
                    _ => {}
                }
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<Message>> {
        let (packet, _) = self.0.recv_from_full()?;
        let mut rest = packet.as_slice();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message = Message::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let length = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
            messages.push(message);
        }
        Ok(messages)
    }
}

fn append(packet: &mut Vec<u8>, message: &mut Message) {
    message.finalize();
    let start = packet.len();
    packet.resize(start + message.buffer_len().next_multiple_of(4), 0);
    message.serialize(&mut packet[start..]);
}
