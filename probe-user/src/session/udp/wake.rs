//! Waiting for datagrams, for a time, or for another thread.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

use super::SocketError;

/// Ends a [`ProbeSocket::wait`](super::ProbeSocket::wait) from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    ByWaker,
    Otherwise,
}

impl Waker {
    pub(super) fn new() -> Result<Self, SocketError> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(
            |errno| SocketError::Wait {
                call: "eventfd",
                errno,
            },
        )?;
        Ok(Self(Arc::new(event)))
    }

    /// Ends the wait that is under way, or the next one.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the waiter wakes anyway.
        let _ = self.0.write(1);
    }

    /// Waits until a socket can be read, until a time, or for [`wake`](Self::wake).
    pub(super) fn wait(
        &self,
        sockets: [Option<BorrowedFd<'_>>; 2],
        until: Option<Instant>,
    ) -> Result<Woken, SocketError> {
        let event = self.0.as_fd();
        // A family without a socket has the event descriptor stand in for it.
        let [first, second] = sockets.map(|socket| socket.unwrap_or(event));
        let mut fds = [event, first, second].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        match ppoll(&mut fds, timeout.map(TimeSpec::from), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(SocketError::Wait {
                    call: "ppoll",
                    errno,
                });
            }
        }
        if fds[0].any() != Some(true) {
            return Ok(Woken::Otherwise);
        }
        match self.0.read() {
            Ok(_) => Ok(Woken::ByWaker),
            Err(Errno::EAGAIN) => Ok(Woken::Otherwise),
            Err(errno) => Err(SocketError::Wait {
                call: "read of an eventfd",
                errno,
            }),
        }
    }
}
