//! Packet sockets: whole frames of interfaces by name.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::Netns;

/// A socket that gets all frames of the present namespace, and waits for them for so long.
pub(crate) fn socket_with(patience: Duration) -> Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::empty(),
        SockProtocol::EthAll,
    )
    .context("open a packet socket")?;
    let patience = TimeVal::new(0, patience.subsec_micros().into());
    setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
    setsockopt(&socket, sockopt::RcvBuf, &(8 << 20))?;
    Ok(socket)
}

/// Sends frames on an interface of the present namespace.
pub(crate) fn send(interface: &str, frames: impl Iterator<Item = Vec<u8>>) -> Result<()> {
    let to = address(interface)?;
    // For no protocol: it receives nothing.
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::empty(),
        None,
    )
    .context("open a packet socket")?;
    for frame in frames {
        sendto(socket.as_raw_fd(), &frame, &to, MsgFlags::empty())
            .with_context(|| format!("send on {interface}"))?;
    }
    Ok(())
}

/// By which frames are sent on an interface of the present namespace.
pub(crate) fn address(interface: &str) -> Result<LinkAddr> {
    let addresses = getifaddrs().context("getifaddrs")?;
    let mut of_interface = addresses.filter(|it| it.interface_name == interface);
    let link = of_interface.find_map(|it| it.address?.as_link_addr().copied());
    link.with_context(|| format!("there is no interface {interface}"))
}

/// The link-layer address of `interface` in `netns`.
pub(crate) fn mac(netns: &Netns, interface: &str) -> Result<[u8; 6]> {
    let link = netns.enter(|| address(interface))??;
    link.addr()
        .with_context(|| format!("{interface} has no link-layer address"))
}
