//! The network interfaces of this network namespace, and which of them is the management
//! interface.
//!
//! [`Watch`] asks the kernel over netlink; [`Management`] chooses, without asking anybody.

mod management;
mod watch;

use std::net::IpAddr;

pub use management::{Management, NotFound};
pub use watch::{Watch, WatchError};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its index: another one when an interface of the same name is made anew.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The kind of a virtual interface, such as `veth`.
    pub kind: Option<String>,
    /// The device on a bus that a hardware interface belongs to, such as `0000:00:03.0`.
    pub bus_device: Option<String>,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it is set up.
    pub up: bool,
    /// The XDP program that it runs.
    pub xdp: Option<XdpInForce>,
    /// Its addresses, without those that the kernel still checks or has found to be in use.
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
