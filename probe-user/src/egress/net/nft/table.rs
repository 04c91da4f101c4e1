//! The table as a batch of messages.

use std::net::IpAddr;

use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, DataAttribute, Hook, InetHookNumber, ListAttribute,
    NfTablesMessage, RuleAttribute, RuleMessage, SetAttribute, SetElementAttribute,
    SetElementFlags, SetElementList, SetElementMessage, SetFlags, SetMessage, TableAttribute,
    TableMessage,
};
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};
use nix::libc;
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE};

use super::super::super::apply::{Range, Ruleset, Steering};
use super::super::netfilter::Message;
use super::expression::{
    Expression, Family, Field, came_in, comes_from, drop_it, is_family, is_in_set, is_no_icmp,
    leave_from, leave_from_one_of, leaves_by, octets,
};
use super::spread;

/// The table's name.
pub(super) const NAME: &str = "pulsepath";
const STEER: &str = "steer";
const GUARD: &str = "guard";
const HOLD: &str = "hold";
const CATCH: &str = "catch";

/// Ahead of `srcnat` (100), where kube-proxy and its like masquerade.
const STEER_PRIORITY: i32 = 90;
/// Behind `srcnat`.
const CATCH_PRIORITY: i32 = 110;
/// Ahead of `filter` (0): whoever accepts there does not accept for us.
const FILTER_PRIORITY: i32 = -10;

/// Data types as `nft` shows them (its `enum datatypes`); nothing to the kernel.
const INTEGER: u32 = 4;
const IPV4_ADDRESS: u32 = 7;
const IPV6_ADDRESS: u32 = 8;
/// What `nft` remembers of a map's byte orders: key in the host's, value big endian.
const BYTE_ORDERS: [u8; 12] = [0, 4, 1, 0, 0, 0, 1, 4, 2, 0, 0, 0];

/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;

/// A table in the making.
pub(super) struct Table {
    messages: Vec<Message>,
    sets: u32,
    rules: usize,
}

impl Table {
    /// Whatever table of this name there was is gone. It is made first, since deleting what is not
    /// there would fail.
    pub(super) fn cleared() -> Self {
        let mut table = Self {
            messages: vec![control(ControlMessage::BatchBegin)],
            sets: 0,
            rules: 0,
        };
        table.create(NfTablesMessage::NewTable(name()));
        table.push(NfTablesMessage::DeleteTable(name()), 0);
        table
    }

    /// Makes the table again, with the rules for `ruleset`.
    pub(super) fn fill(&mut self, ruleset: &Ruleset) {
        self.create(NfTablesMessage::NewTable(name()));
        self.chain(STEER, "nat", InetHookNumber::PostRouting, STEER_PRIORITY);
        self.chain(GUARD, "filter", InetHookNumber::LocalIn, FILTER_PRIORITY);
        self.chain(HOLD, "filter", InetHookNumber::Forward, FILTER_PRIORITY);
        self.chain(CATCH, "filter", InetHookNumber::PostRouting, CATCH_PRIORITY);
        for family in Family::ALL {
            let guarded: Vec<_> = ruleset
                .guarded
                .iter()
                .copied()
                .filter(|address| Family::of(*address) == family)
                .collect();
            if !guarded.is_empty() {
                self.guard(family, &guarded);
            }
        }
        for steering in &ruleset.steering {
            self.steer(steering);
        }
        for (out, ranges) in &ruleset.held_back {
            self.drop_all(HOLD, out, ranges);
        }
        for (out, ranges) in &ruleset.sources {
            self.drop_all(CATCH, out, ranges);
        }
    }

    pub(super) fn rule_count(&self) -> usize {
        self.rules
    }

    /// The messages of one transaction. The last one asks for an acknowledgement.
    pub(super) fn into_batch(mut self) -> Vec<Message> {
        if let Some(last) = self.messages.last_mut() {
            last.header.flags |= NLM_F_ACK;
        }
        self.messages.push(control(ControlMessage::BatchEnd));
        self.messages
    }

    fn guard(&mut self, family: Family, addresses: &[IpAddr]) {
        let name = match family {
            Family::V4 => "egress_ipv4",
            Family::V6 => "egress_ipv6",
        };
        let elements = addresses
            .iter()
            .map(|&address| vec![SetElementAttribute::Key(value(octets(address)))]);
        let id = self.set(name, key_of(family), elements.collect());
        let mut rule: Vec<_> = is_family(family).into();
        rule.extend(is_no_icmp(family));
        rule.extend(is_in_set(family, Field::Destination, name, id));
        rule.push(drop_it());
        self.rule(GUARD, rule);
    }

    fn steer(&mut self, steering: &Steering) {
        let family = Family::of(steering.source.addr());
        let mut rule: Vec<_> = is_family(family).into();
        if let Some(interface) = &steering.out {
            rule.extend(leaves_by(interface));
        }
        rule.extend(comes_from(steering.source));
        if steering.addresses.len() == 1 {
            rule.extend(steering.addresses.iter().copied().flat_map(leave_from));
        } else {
            let name = format!("{STEER}{}", self.sets);
            let elements = (0_u32..)
                .zip(spread(&steering.addresses))
                .map(|(bucket, address)| {
                    vec![
                        SetElementAttribute::Key(value(bucket.to_ne_bytes().into())),
                        SetElementAttribute::Data(value(octets(address))),
                    ]
                });
            let id = self.set(&name, map_to(family), elements.collect());
            rule.extend(leave_from_one_of(family, &name, id));
        }
        self.rule(STEER, rule);
    }

    /// Drops what others send from these addresses and would leave by `out`.
    fn drop_all(&mut self, chain: &str, out: &str, ranges: &[Range]) {
        for family in Family::ALL {
            let of_family = ranges.iter().filter(|it| Family::of(it.first) == family);
            let ranges: Vec<_> = of_family.copied().collect();
            if !ranges.is_empty() {
                self.drop_family(chain, family, out, &ranges);
            }
        }
    }

    fn drop_family(&mut self, chain: &str, family: Family, out: &str, ranges: &[Range]) {
        let name = format!("{chain}{}", self.sets);
        let elements = ranges.iter().flat_map(elements_of).collect();
        let mut shape = key_of(family);
        shape.push(SetAttribute::Flags(SetFlags::Interval));
        let id = self.set(&name, shape, elements);
        let mut rule: Vec<_> = is_family(family).into();
        rule.extend(came_in());
        rule.extend(leaves_by(out));
        rule.extend(is_in_set(family, Field::Source, &name, id));
        rule.push(drop_it());
        self.rule(chain, rule);
    }

    fn chain(&mut self, chain: &str, kind: &str, hook: InetHookNumber, priority: i32) {
        let attributes = vec![
            ChainAttribute::Table(NAME.to_owned()),
            ChainAttribute::Name(chain.to_owned()),
            ChainAttribute::Hook(vec![
                Hook::Number(hook.into()),
                Hook::Priority(priority.cast_unsigned()),
            ]),
            ChainAttribute::Policy(ACCEPT),
            ChainAttribute::Type(kind.to_owned()),
        ];
        self.create(NfTablesMessage::NewChain(ChainMessage { attributes }));
    }

    fn set(
        &mut self,
        set: &str,
        shape: Vec<SetAttribute>,
        elements: Vec<Vec<SetElementAttribute>>,
    ) -> u32 {
        self.sets += 1;
        let id = self.sets;
        let mut attributes = vec![
            SetAttribute::Table(NAME.to_owned()),
            SetAttribute::Name(set.to_owned()),
            SetAttribute::Id(id),
        ];
        attributes.extend(shape);
        self.create(NfTablesMessage::NewSet(SetMessage { attributes }));
        let elements = elements.into_iter().map(ListAttribute::Element).collect();
        let attributes = vec![
            SetElementList::Table(NAME.to_owned()),
            SetElementList::Set(set.to_owned()),
            SetElementList::SetId(id),
            SetElementList::Elements(elements),
        ];
        self.create(NfTablesMessage::NewSetElement(SetElementMessage {
            attributes,
        }));
        id
    }

    fn rule(&mut self, chain: &str, expressions: Vec<Expression>) {
        self.rules += 1;
        let attributes = vec![
            RuleAttribute::Table(NAME.to_owned()),
            RuleAttribute::Chain(chain.to_owned()),
            RuleAttribute::Expressions(expressions),
        ];
        let rule = NfTablesMessage::NewRule(RuleMessage { attributes });
        self.push(rule, NLM_F_CREATE | NLM_F_APPEND);
    }

    fn create(&mut self, message: NfTablesMessage) {
        self.push(message, NLM_F_CREATE);
    }

    fn push(&mut self, message: NfTablesMessage, flags: u16) {
        let mut message = tables(message);
        message.header.flags |= flags;
        self.messages.push(message);
    }
}

/// A range begins with its first address and ends before the next one behind it, if there is any.
fn elements_of(range: &Range) -> Vec<Vec<SetElementAttribute>> {
    let first = vec![SetElementAttribute::Key(value(octets(range.first)))];
    let behind = match range.last {
        IpAddr::V4(last) => u32::from(last)
            .checked_add(1)
            .map(|it| it.to_be_bytes().into()),
        IpAddr::V6(last) => u128::from(last)
            .checked_add(1)
            .map(|it| it.to_be_bytes().into()),
    };
    let end = behind.map(|behind| {
        let flags = SetElementFlags::IntervalEnd;
        vec![
            SetElementAttribute::Key(value(behind)),
            SetElementAttribute::Flags(flags),
        ]
    });
    [first].into_iter().chain(end).collect()
}

/// Asks for every rule of our table.
pub(super) fn list_rules() -> Message {
    let attributes = vec![RuleAttribute::Table(NAME.to_owned())];
    tables(NfTablesMessage::GetRule(RuleMessage { attributes }))
}

fn name() -> TableMessage {
    TableMessage {
        attributes: vec![TableAttribute::Name(NAME.to_owned())],
    }
}

fn key_of(family: Family) -> Vec<SetAttribute> {
    vec![
        SetAttribute::KeyType(type_of(family)),
        SetAttribute::KeyLen(family.length()),
    ]
}

fn map_to(family: Family) -> Vec<SetAttribute> {
    vec![
        SetAttribute::Flags(SetFlags::Map),
        SetAttribute::KeyType(INTEGER),
        SetAttribute::KeyLen(4),
        SetAttribute::DataType(type_of(family)),
        SetAttribute::DataLen(family.length()),
        SetAttribute::UserData(BYTE_ORDERS.to_vec()),
    ]
}

fn type_of(family: Family) -> u32 {
    match family {
        Family::V4 => IPV4_ADDRESS,
        Family::V6 => IPV6_ADDRESS,
    }
}

fn value(bytes: Vec<u8>) -> DataAttribute {
    DataAttribute::Value(bytes)
}

fn tables(message: NfTablesMessage) -> Message {
    netfilter(NetfilterProtoFamily::Inet, 0, message)
}

fn control(message: ControlMessage) -> Message {
    let subsystem = libc::NFNL_SUBSYS_NFTABLES as u16;
    netfilter(NetfilterProtoFamily::Unspec, subsystem, message)
}

fn netfilter(
    family: NetfilterProtoFamily,
    resource: u16,
    message: impl Into<NetfilterMessageInner>,
) -> Message {
    NetfilterMessage::new(NetfilterHeader::new(family, 0, resource), message).into()
}
