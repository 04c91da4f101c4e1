//! The interfaces as netlink shows them, and notice of their changes.

use std::io;
use std::time::Duration;

use futures_util::stream::Stream;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, XdpAttached,
};
use rtnetlink::{Handle, MulticastGroup};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::{EGRESS_IP, Interface, XdpInForce};

/// Changes come in bursts: they are looked at this long after the first.
const BURST: Duration = Duration::from_millis(20);

/// Why the interfaces are not known.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No netlink socket.
    #[error("cannot open a netlink socket for network interfaces")]
    Open(#[source] io::Error),
    /// A request failed.
    #[error("cannot list the {what} over netlink")]
    List {
        /// What was asked for.
        what: &'static str,
        /// What netlink said.
        #[source]
        source: Box<rtnetlink::Error>,
    },
}

/// A netlink socket that hears of changes.
pub struct Watch {
    handle: Handle,
    notices: Box<dyn Stream<Item = ()> + Send + Unpin>,
    connection: JoinHandle<()>,
    /// When the burst of changes that has begun counts as over.
    settled: Option<Instant>,
}

impl Watch {
    /// Opens the socket. Needs a tokio runtime.
    pub fn new() -> Result<Self, WatchError> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (connection, handle, messages) =
            rtnetlink::new_multicast_connection(&groups).map_err(WatchError::Open)?;
        let connection = tokio::spawn(connection);
        Ok(Self {
            handle,
            notices: Box::new(messages.map(|_| ())),
            connection,
            settled: None,
        })
    }

    /// Waits until something about an interface or an address has changed, and most of the burst of
    /// changes is over. Never returns if the socket is gone: whoever waits also looks from time to
    /// time. A wait that is given up loses nothing.
    pub async fn changed(&mut self) {
        let settled = match self.settled {
            Some(settled) => settled,
            None => {
                if self.notices.next().await.is_none() {
                    return std::future::pending().await;
                }
                *self.settled.insert(Instant::now() + BURST)
            }
        };
        sleep_until(settled).await;
        while self.notices.next().now_or_never().flatten().is_some() {}
        self.settled = None;
    }

    /// All interfaces with their addresses.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, WatchError> {
        let failed = |what| {
            move |source| WatchError::List {
                what,
                source: Box::new(source),
            }
        };
        let links: Vec<LinkMessage> = self
            .handle
            .link()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(failed("interfaces"))?;
        let addresses: Vec<AddressMessage> = self
            .handle
            .address()
            .get()
            .execute()
            .try_collect()
            .await
            .map_err(failed("addresses"))?;
        let mut interfaces: Vec<_> = links.into_iter().map(interface).collect();
        for message in addresses {
            let index = message.header.index;
            let address = usable_address(message);
            if let Some(interface) = interfaces.iter_mut().find(|it| it.index == index) {
                interface.addresses.extend(address);
            }
        }
        Ok(interfaces)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn interface(message: LinkMessage) -> Interface {
    let mut interface = Interface {
        index: message.header.index,
        link_type: message.header.link_layer_type.into(),
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        up: message.header.flags.contains(LinkFlags::Up),
        ..Interface::default()
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name = name,
            LinkAttribute::ParentDevName(device) => interface.bus_device = Some(device),
            LinkAttribute::LinkInfo(infos) => {
                interface.kind = infos.into_iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            LinkAttribute::Xdp(attributes) => interface.xdp = xdp(&attributes),
            _ => {}
        }
    }
    interface
}

fn xdp(attributes: &[LinkXdp]) -> Option<XdpInForce> {
    let program_id = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) => Some(*id),
        _ => None,
    })?;
    let native = attributes.contains(&LinkXdp::Attached(XdpAttached::Driver));
    Some(XdpInForce { program_id, native })
}

fn usable_address(message: AddressMessage) -> Option<std::net::IpAddr> {
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    let (mut address, mut local, mut is_egress_ip) = (None, None, false);
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Protocol(it) => is_egress_ip = it == EGRESS_IP,
            AddressAttribute::Address(it) => address = Some(it),
            // On point-to-point links the other one is the peer's.
            AddressAttribute::Local(it) => local = Some(it),
            AddressAttribute::Flags(all) => flags = all,
            _ => {}
        }
    }
    let unusable = AddressFlags::Tentative | AddressFlags::Dadfailed;
    let is_usable = !is_egress_ip
        && (message.header.family != AddressFamily::Inet6 || !flags.intersects(unusable));
    local.or(address).filter(|_| is_usable)
}
