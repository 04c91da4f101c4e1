//! Policy rules and routes, over rtnetlink.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion};

use super::super::apply::{PRIORITY, Policy, PolicyRoute, PolicyRule, PolicyTable, TABLES, Uplink};
use super::NetError;

/// Marks rules and routes as ours.
const OURS: RouteProtocol = RouteProtocol::Other(b'p');

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// The node's default routes, save ours: those of the table `main`, and whatever leaves by `links`.
/// The kernel cannot be asked for default routes alone, so that all others are listed, too.
pub(crate) async fn uplinks(
    handle: &Handle,
    links: &BTreeSet<u32>,
) -> Result<Vec<Uplink>, NetError> {
    let mut main = RouteMessage::default();
    main.header.kind = RouteType::Unicast;
    main.header.table = RouteHeader::RT_TABLE_MAIN;
    let mut routes = defaults(handle, &main).await?;
    for &link in links {
        let mut by_link = RouteMessage::default();
        by_link.header.kind = RouteType::Unicast;
        by_link.attributes = vec![RouteAttribute::Oif(link)];
        let elsewhere = |it: &RouteMessage| it.header.table != RouteHeader::RT_TABLE_MAIN;
        let found = defaults(handle, &by_link).await?;
        routes.extend(found.into_iter().filter(elsewhere));
    }
    let others = routes.iter().filter(|it| it.header.protocol != OURS);
    Ok(others.flat_map(uplinks_of).collect())
}

/// Makes our rules and routes what `policy` says: new ones first, so that no packet falls between.
pub(crate) async fn replace(handle: &Handle, policy: &Policy) -> Result<(), NetError> {
    let mut ours = RouteMessage::default();
    ours.header.protocol = OURS;
    let routes = defaults(handle, &ours).await?;
    let routes: BTreeSet<_> = routes.iter().filter_map(our_route).collect();
    let rules = rules(handle).await?;
    for route in policy.routes.difference(&routes) {
        let request = handle.route().add(route_message(route)).replace();
        request
            .execute()
            .await
            .map_err(failed("add a policy route"))?;
    }
    for rule in policy.rules.difference(&rules) {
        let mut request = handle.rule().add();
        *request.message_mut() = rule_message(rule);
        request
            .execute()
            .await
            .map_err(failed("add a policy rule"))?;
    }
    for rule in rules.difference(&policy.rules) {
        let request = handle.rule().del(rule_message(rule));
        request
            .execute()
            .await
            .map_err(failed("remove a policy rule"))?;
    }
    let kept = |route: &&PolicyRoute| !policy.routes.iter().any(|it| is_same_place(it, route));
    for route in routes.difference(&policy.routes).filter(kept) {
        let request = handle.route().del(route_message(route));
        request
            .execute()
            .await
            .map_err(failed("remove a policy route"))?;
    }
    Ok(())
}

/// One replaces the other in the kernel.
fn is_same_place(one: &PolicyRoute, other: &PolicyRoute) -> bool {
    one.link == other.link && one.gateway.is_ipv4() == other.gateway.is_ipv4()
}

fn failed(action: &'static str) -> impl FnOnce(rtnetlink::Error) -> NetError {
    move |source| NetError::Route {
        action: action.to_owned(),
        source: Box::new(source),
    }
}

/// The default routes of both families among those that the kernel lists: those that `filter` fits,
/// if the socket has strict checking, else all.
async fn defaults(handle: &Handle, filter: &RouteMessage) -> Result<Vec<RouteMessage>, NetError> {
    let mut all = Vec::new();
    for family in FAMILIES {
        let mut message = filter.clone();
        message.header.address_family = family;
        let routes: Vec<_> = handle
            .route()
            .get(message)
            .execute()
            .try_collect()
            .await
            .map_err(failed("list the routes"))?;
        let defaults = routes.into_iter().filter(|it: &RouteMessage| {
            it.header.destination_prefix_length == 0 && it.header.kind == RouteType::Unicast
        });
        all.extend(defaults);
    }
    Ok(all)
}

async fn rules(handle: &Handle) -> Result<BTreeSet<PolicyRule>, NetError> {
    let mut all = BTreeSet::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        let rules: Vec<RuleMessage> = handle
            .rule()
            .get(version)
            .execute()
            .try_collect()
            .await
            .map_err(failed("list the rules"))?;
        all.extend(rules.iter().filter_map(our_rule));
    }
    Ok(all)
}

fn address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(gateway) => address(gateway),
        _ => None,
    })
}

fn uplinks_of(message: &RouteMessage) -> Vec<Uplink> {
    let (mut link, mut metric, mut hops) = (None, 0, [].as_slice());
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::MultiPath(all) => hops = all.as_slice(),
            _ => {}
        }
    }
    let uplink = |link, gateway| Uplink {
        link,
        gateway,
        metric,
        main: message.header.table == RouteHeader::RT_TABLE_MAIN,
    };
    let single = link.zip(gateway(&message.attributes));
    let many = hops
        .iter()
        .filter_map(|hop: &RouteNextHop| Some((hop.interface_index, gateway(&hop.attributes)?)));
    let all = single.into_iter().chain(many);
    all.map(|(link, gateway)| uplink(link, gateway)).collect()
}

fn our_route(message: &RouteMessage) -> Option<PolicyRoute> {
    let [uplink] = uplinks_of(message)[..] else {
        return None;
    };
    (message.header.protocol == OURS).then_some(PolicyRoute {
        link: uplink.link,
        gateway: uplink.gateway,
    })
}

fn route_message(route: &PolicyRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(route.gateway);
    message.header.protocol = OURS;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Table(TABLES + route.link),
        RouteAttribute::Oif(route.link),
        RouteAttribute::Gateway(route.gateway.into()),
    ];
    message
}

fn our_rule(message: &RuleMessage) -> Option<PolicyRule> {
    let (mut source, mut table, mut ours) = (None, None, false);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(address) => source = Some(*address),
            RuleAttribute::Table(number) => table = Some(*number),
            RuleAttribute::Protocol(protocol) => ours = *protocol == OURS,
            _ => {}
        }
    }
    let source = IpNet::new(source?, message.header.src_len).ok()?;
    let table = match table.and_then(|table| table.checked_sub(TABLES)) {
        Some(link) => PolicyTable::Of(link),
        None => PolicyTable::Main,
    };
    ours.then_some(PolicyRule { source, table })
}

fn rule_message(rule: &PolicyRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family(rule.source.addr());
    message.header.src_len = rule.source.prefix_len();
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Source(rule.source.addr()),
        RuleAttribute::Protocol(OURS),
    ];
    let table = match rule.table {
        PolicyTable::Main => {
            message.attributes.extend([
                RuleAttribute::Priority(PRIORITY),
                RuleAttribute::SuppressPrefixLen(0),
            ]);
            u32::from(RouteHeader::RT_TABLE_MAIN)
        }
        PolicyTable::Of(link) => {
            message
                .attributes
                .push(RuleAttribute::Priority(PRIORITY + 1));
            TABLES + link
        }
    };
    message.attributes.push(RuleAttribute::Table(table));
    message
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
