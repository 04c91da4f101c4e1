//! Addresses that nodes can be probed at.

use std::net::IpAddr;

/// Reads an address that a node can be probed at.
///
/// # Errors
///
/// Says why it cannot.
pub(crate) fn parse_address(text: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = text
        .parse()
        .map_err(|_| "it is not an IPv4 or IPv6 address")?;
    let address = address.to_canonical();
    let (broadcast, link_local) = match address {
        IpAddr::V4(v4) => (v4.is_broadcast(), false),
        IpAddr::V6(v6) => (false, v6.is_unicast_link_local()),
    };
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err("it is not the address of one host");
    }
    if link_local {
        return Err("a link-local address says nothing without an interface");
    }
    Ok(address)
}
