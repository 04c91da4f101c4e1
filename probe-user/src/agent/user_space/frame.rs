//! Headers around a UDP payload, so that the packet logic of the kernel programs can judge what a
//! socket has received.

use std::net::{IpAddr, SocketAddr};

const ETHERNET: usize = 14;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;

/// A frame as it would have carried this datagram. No checksums: the logic sets them, and never
/// reads them.
pub(super) fn around(
    source: SocketAddr,
    destination: SocketAddr,
    ttl: u8,
    payload: &[u8],
) -> Vec<u8> {
    let length = (UDP + payload.len()) as u16;
    let mut frame = vec![0; ETHERNET - 2];
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 0, 0, 0, ttl, PROTOCOL_UDP, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        (from, to) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([PROTOCOL_UDP, ttl]);
            for address in [from, to] {
                frame.extend(crate::agent::config::mapped(address));
            }
        }
    }
    frame.extend(source.port().to_be_bytes());
    frame.extend(destination.port().to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// The last `length` bytes of a frame: the payload that [`around`] was given, or what the logic
/// made of it.
pub(super) fn payload(frame: &[u8], length: usize) -> &[u8] {
    &frame[frame.len() - length..]
}
