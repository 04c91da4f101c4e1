//! Notice of changes to the packet filter, whoever makes them.

use std::io;

use nix::libc;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, TokioSocket};

use super::super::NetError;

/// A socket that hears of every change.
pub(crate) struct Watch(TokioSocket);

impl Watch {
    /// Opens the socket. Needs a tokio runtime.
    pub(crate) fn new() -> Result<Self, NetError> {
        let open = || {
            let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
            socket.socket_mut().bind_auto()?;
            let group = libc::NFNLGRP_NFTABLES.cast_unsigned();
            socket.socket_ref().add_membership(group)?;
            Ok(Self(socket))
        };
        open().map_err(|source| NetError::Open {
            kind: "packet filter",
            source,
        })
    }

    /// Waits for the next change. What the socket had no room for is a change, too.
    pub(crate) async fn changed(&self) {
        let mut notice = Vec::with_capacity(4096);
        match self.0.recv(&mut notice).await {
            Err(error) if !is_overrun(&error) => std::future::pending().await,
            _ => {}
        }
    }
}

fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}
