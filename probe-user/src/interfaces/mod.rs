//! The network interfaces of this network namespace, and which of them is the management
//! interface.
//!
//! [`Watch`] asks the kernel over netlink; [`Management`] chooses, without asking anybody.

mod management;
mod watch;

use std::net::IpAddr;

use rtnetlink::packet_route::address::AddressProtocol;

pub use management::{Management, NotFound};
pub use watch::{Watch, WatchError};

/// What marks an address as an egress IP of ours (IFA_PROTO, [Linux 5.18]).
///
/// [Linux 5.18]: https://git.kernel.org/torvalds/c/47f0bd503210
pub(crate) const EGRESS_IP: AddressProtocol = AddressProtocol::Other(b'p');

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its index: another one when an interface of the same name is made anew.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The kind of a virtual interface, such as `veth`.
    pub kind: Option<String>,
    /// What its packets begin with: ARPHRD_* of `linux/if_arp.h`.
    pub link_type: u16,
    /// The device on a bus that a hardware interface belongs to, such as `0000:00:03.0`.
    pub bus_device: Option<String>,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it is set up.
    pub up: bool,
    /// The XDP program that it runs.
    pub xdp: Option<XdpInForce>,
    /// Its own addresses: without those that the kernel still checks or has found to be in use, and
    /// without egress IPs, which belong to whichever node holds them.
    pub addresses: Vec<IpAddr>,
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpInForce {
    /// The program's id.
    pub program_id: u32,
    /// Whether it runs in the driver.
    pub native: bool,
}
