//! What can go wrong with a prober's sockets.

use std::fmt;

use nix::errno::Errno;

/// An internet protocol; each has a socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Why probing over UDP cannot begin or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// A socket cannot be made or set up.
    #[error("cannot set up the {family} UDP socket of the prober: {call}: {errno}")]
    Setup {
        /// Which socket.
        family: Family,
        /// The system call, and the option if it is about one.
        call: &'static str,
        /// What the system said.
        errno: Errno,
    },
    /// The system has neither IPv4 nor IPv6.
    #[error("cannot probe: this system has neither IPv4 nor IPv6")]
    NoFamily,
    /// A socket cannot be read.
    #[error("cannot receive on the {family} UDP socket of the prober: recvmmsg: {errno}")]
    Receive {
        /// Which socket.
        family: Family,
        /// What the system said.
        errno: Errno,
    },
    /// Nothing can be waited for.
    #[error("cannot wait for replies: {call}: {errno}")]
    Wait {
        /// The system call.
        call: &'static str,
        /// What the system said.
        errno: Errno,
    },
}
