//! `recvmmsg` and `sendmmsg`: many datagrams per system call, the only unsafe code of the prober.
//!
//! `nix` wraps both, but hands the kernel, as the room for control messages, what the last call
//! left of it, and reads addresses that `sendmmsg` never wrote. Here headers are made anew for
//! each call, on the stack, which costs far less than the call; buffers are reused.

#![expect(unsafe_code, reason = "the kernel fills buffers through raw pointers")]

use std::array;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::libc;
use probe_ebpf::wire::probe::PROBE_LEN;

use super::address::RawAddress;
use super::control::Control;

/// Datagrams that one call receives at most.
pub(super) const RECEIVE_BATCH: usize = 64;
/// Datagrams that one call sends at most. All of them count as sent when the first is, so the
/// fewer they are, the truer are round trips.
pub(super) const SEND_BATCH: usize = 32;
/// Longer datagrams are cut, and so are not replies.
const PAYLOAD_MAX: usize = PROBE_LEN + 1;

const NO_BUFFER: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A buffer for one received datagram and what comes with it.
#[derive(Clone, Copy)]
struct Received {
    payload: [u8; PAYLOAD_MAX],
    length: usize,
    address: RawAddress,
    control: Control,
}

/// Buffers for received datagrams.
pub(super) struct ReceiveBatch {
    slots: Box<[Received; RECEIVE_BATCH]>,
    filled: usize,
}

/// A received datagram.
pub(super) struct Datagram<'a> {
    /// Where it came from; `None` if not from an internet address.
    pub(super) source: Option<SocketAddr>,
    pub(super) payload: &'a [u8],
    pub(super) control: &'a Control,
}

impl ReceiveBatch {
    pub(super) fn new() -> Self {
        let empty = Received {
            payload: [0; PAYLOAD_MAX],
            length: 0,
            address: RawAddress::EMPTY,
            control: Control::EMPTY,
        };
        Self {
            slots: Box::new([empty; RECEIVE_BATCH]),
            filled: 0,
        }
    }

    /// The datagrams of the last successful [`receive`](Self::receive).
    pub(super) fn datagrams(&self) -> impl ExactSizeIterator<Item = Datagram<'_>> {
        self.slots[..self.filled].iter().map(|slot| Datagram {
            source: slot.address.decode(),
            payload: &slot.payload[..slot.length],
            control: &slot.control,
        })
    }

    /// Receives what can be read without waiting, up to a batch.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.read(socket, 0)
    }

    /// Empties the socket's error queue. What is in it has told already, as the error of a call,
    /// that the network could not deliver a probe; left there, it would fill the receive buffer.
    pub(super) fn discard_errors(&mut self, socket: BorrowedFd<'_>) {
        while self.read(socket, libc::MSG_ERRQUEUE).is_ok() && self.filled == RECEIVE_BATCH {}
        self.filled = 0;
    }

    fn read(&mut self, socket: BorrowedFd<'_>, flags: libc::c_int) -> Result<(), Errno> {
        self.filled = 0;
        let mut buffers = [NO_BUFFER; RECEIVE_BATCH];
        let mut headers: [libc::mmsghdr; RECEIVE_BATCH] = array::from_fn(|_| empty_header());
        for ((slot, buffer), header) in self.slots.iter_mut().zip(&mut buffers).zip(&mut headers) {
            *buffer = libc::iovec {
                iov_base: slot.payload.as_mut_ptr().cast(),
                iov_len: PAYLOAD_MAX,
            };
            header.msg_hdr.msg_name = slot.address.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = RawAddress::CAPACITY;
            header.msg_hdr.msg_iov = buffer;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = slot.control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = Control::CAPACITY as _;
        }
        // SAFETY: each header points to an address, a buffer description and a control buffer of
        // the sizes it names, all of which outlive the call, and no other reference to any of
        // them is used until it returns.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                RECEIVE_BATCH as _,
                libc::MSG_DONTWAIT | flags,
                std::ptr::null_mut(),
            )
        };
        self.filled = Errno::result(received)? as usize;
        for (slot, header) in self.slots.iter_mut().zip(&headers).take(self.filled) {
            slot.length = (header.msg_len as usize).min(PAYLOAD_MAX);
            slot.address.set_length(header.msg_hdr.msg_namelen);
            slot.control.set_length(header.msg_hdr.msg_controllen);
        }
        Ok(())
    }
}

/// A datagram to send.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) to: RawAddress,
    pub(super) payload: [u8; PROBE_LEN],
}

/// Sends the first datagrams of `outgoing`, up to a batch, and returns how many: at least one. An
/// error is the first one's.
pub(super) fn send(socket: BorrowedFd<'_>, outgoing: &[Outgoing]) -> Result<usize, Errno> {
    let count = outgoing.len().min(SEND_BATCH);
    let mut buffers = [NO_BUFFER; SEND_BATCH];
    let mut headers: [libc::mmsghdr; SEND_BATCH] = array::from_fn(|_| empty_header());
    for ((datagram, buffer), header) in outgoing.iter().zip(&mut buffers).zip(&mut headers) {
        *buffer = libc::iovec {
            iov_base: datagram.payload.as_ptr().cast_mut().cast(),
            iov_len: PROBE_LEN,
        };
        header.msg_hdr.msg_name = datagram.to.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = datagram.to.length();
        header.msg_hdr.msg_iov = buffer;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `count` headers point to an address and a buffer description of the sizes
    // they name, which outlive the call. The kernel only reads what they point to.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as _,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    Ok(Errno::result(sent)? as usize)
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all zero is a valid header: no address, no buffers, no control messages. Some C
    // libraries give it private padding, so it cannot be written out.
    unsafe { std::mem::zeroed() }
}
