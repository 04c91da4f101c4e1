//! Interfaces and addresses, over rtnetlink.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};

use super::super::apply::{Link, Observed, Present};
use super::NetError;
use crate::interfaces::EGRESS_IP;

/// Valid for ever, as the kernel writes it.
const FOR_EVER: u32 = u32::MAX;

/// Every interface and address. On kernels that cannot mark an address, those of `added` are ours.
pub(crate) async fn observe(
    handle: &Handle,
    added: &BTreeSet<IpAddr>,
) -> Result<Observed, NetError> {
    let failed = |action: &str| {
        let action = action.to_owned();
        move |source| NetError::Route {
            action,
            source: Box::new(source),
        }
    };
    let links = handle.link().get().execute();
    let links: Vec<_> = links
        .map_ok(link)
        .try_collect()
        .await
        .map_err(failed("list the interfaces"))?;
    let addresses = handle.address().get().execute();
    let addresses: Vec<AddressMessage> = addresses
        .try_collect()
        .await
        .map_err(failed("list the addresses"))?;
    let origin = |it: &AddressAttribute| matches!(it, AddressAttribute::Protocol(_));
    // Where the kernel can tell, it does so of its own loopback addresses.
    let tells_origin = addresses.iter().any(|it| it.attributes.iter().any(origin));
    let is_ours = |address: IpAddr, origin| match tells_origin {
        true => origin == Some(EGRESS_IP),
        false => added.contains(&address),
    };
    let addresses = addresses
        .into_iter()
        .filter_map(|message| present(message, is_ours));
    Ok(Observed {
        links,
        addresses: addresses.collect(),
        tells_origin,
    })
}

/// Puts `address` on an interface, marked as ours.
///
/// An IPv6 address is not checked for duplicates by the kernel, which would take it over a second,
/// and is never the source of the node's own traffic (RFC 6724 avoids deprecated addresses).
pub(crate) async fn add(handle: &Handle, address: IpAddr, link: u32) -> Result<(), NetError> {
    let mut request = handle.address().add(link, address, host_length(address));
    let attributes = &mut request.message_mut().attributes;
    attributes.push(AddressAttribute::Protocol(EGRESS_IP));
    if address.is_ipv6() {
        attributes.push(AddressAttribute::Flags(
            AddressFlags::Nodad | AddressFlags::Noprefixroute,
        ));
        let mut lifetime = CacheInfo::default();
        (lifetime.ifa_preferred, lifetime.ifa_valid) = (0, FOR_EVER);
        attributes.push(AddressAttribute::CacheInfo(lifetime));
    }
    request.execute().await.map_err(|source| NetError::Route {
        action: format!("add {address} to interface {link}"),
        source: Box::new(source),
    })
}

/// Takes `address` off an interface. One that is gone already is fine.
pub(crate) async fn remove(handle: &Handle, address: IpAddr, link: u32) -> Result<(), NetError> {
    let mut message = AddressMessage::default();
    message.header.index = link;
    message.header.prefix_len = host_length(address);
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
    ];
    match handle.address().del(message).execute().await {
        Err(error) if !is_gone(&error) => Err(NetError::Route {
            action: format!("remove {address} from interface {link}"),
            source: Box::new(error),
        }),
        _ => Ok(()),
    }
}

fn is_gone(error: &rtnetlink::Error) -> bool {
    let rtnetlink::Error::NetlinkError(message) = error else {
        return false;
    };
    use nix::libc::{EADDRNOTAVAIL, ENODEV};
    matches!(message.raw_code().abs(), EADDRNOTAVAIL | ENODEV)
}

fn host_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn link(message: LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        loopback: flags.contains(LinkFlags::Loopback),
        up: flags.contains(LinkFlags::Up | LinkFlags::Running),
        mac: None,
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(mac)
                if message.header.link_layer_type == LinkLayerType::Ether =>
            {
                link.mac = mac
                    .try_into()
                    .ok()
                    .filter(|_| !flags.contains(LinkFlags::Noarp));
            }
            _ => {}
        }
    }
    link
}

fn present(
    message: AddressMessage,
    is_ours: impl Fn(IpAddr, Option<AddressProtocol>) -> bool,
) -> Option<Present> {
    let prefix_length = message.header.prefix_len;
    let (mut address, mut local, mut protocol) = (None, None, None);
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Address(it) => address = Some(it),
            AddressAttribute::Local(it) => local = Some(it),
            AddressAttribute::Protocol(it) => protocol = Some(it),
            _ => {}
        }
    }
    let address = local.or(address)?;
    Some(Present {
        link: message.header.index,
        address,
        prefix_length,
        ours: prefix_length == host_length(address) && is_ours(address, protocol),
    })
}
