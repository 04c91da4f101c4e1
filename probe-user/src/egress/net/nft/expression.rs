//! The expressions of which our rules are made.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::{
    Bitwise, Cmp, DataAttribute, ExpressionAttribute, Expressions, Immediate, ListAttribute,
    Lookup, Meta, MetaKey, Operator, Payload, Register, Verdict, VerdictAttribute,
};
use rtnetlink::packet_core::DefaultNla;

use super::BUCKETS;

pub(super) type Expression = ListAttribute<ExpressionAttribute>;

/// `NFT_PAYLOAD_NETWORK_HEADER`.
const NETWORK_HEADER: u32 = 1;
/// `NF_DROP`.
const DROP: Verdict = Verdict::Other(0);
/// Length of an interface's name with its zero (`IFNAMSIZ`).
const INTERFACE_NAME: usize = 16;
/// Sources keep their address when the agent is restarted, so the hash has a fixed seed.
const HASH_SEED: u32 = 0x7070_7070;

/// The attributes of `nat` (`enum nft_nat_attributes`).
mod nat {
    pub(super) const TYPE: u16 = 1;
    pub(super) const FAMILY: u16 = 2;
    pub(super) const REG_ADDR_MIN: u16 = 3;
    /// `NFT_NAT_SNAT`.
    pub(super) const SNAT: u32 = 0;
}

/// The attributes of `hash` (`enum nft_hash_attributes`).
mod hash {
    pub(super) const SREG: u16 = 1;
    pub(super) const DREG: u16 = 2;
    pub(super) const LEN: u16 = 3;
    pub(super) const MODULUS: u16 = 4;
    pub(super) const SEED: u16 = 5;
}

/// An address family, as nftables sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// An address of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    /// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
    fn protocol(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// ICMP, ICMPv6. Neighbour discovery is part of the latter.
    fn icmp(self) -> u8 {
        match self {
            Self::V4 => 1,
            Self::V6 => 58,
        }
    }

    /// Length of an address, bytes.
    pub(super) fn length(self) -> u32 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    fn offset(self, field: Field) -> u32 {
        match (self, field) {
            (Self::V4, Field::Source) => 12,
            (Self::V4, Field::Destination) => 16,
            (Self::V6, Field::Source) => 8,
            (Self::V6, Field::Destination) => 24,
        }
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The packet is of this family.
pub(super) fn is_family(family: Family) -> [Expression; 2] {
    [
        meta(MetaKey::Nfproto),
        compare(Operator::Equal, vec![family.protocol()]),
    ]
}

/// The packet is no ICMP.
pub(super) fn is_no_icmp(family: Family) -> [Expression; 2] {
    [
        meta(MetaKey::L4Proto),
        compare(Operator::NotEqual, vec![family.icmp()]),
    ]
}

/// The packet is not the node's own, but came in by an interface.
pub(super) fn came_in() -> [Expression; 2] {
    [meta(MetaKey::Iif), compare(Operator::NotEqual, vec![0; 4])]
}

/// The packet leaves by this interface.
pub(super) fn leaves_by(interface: &str) -> [Expression; 2] {
    let mut name = interface.as_bytes().to_vec();
    name.resize(INTERFACE_NAME, 0);
    [meta(MetaKey::Oifname), compare(Operator::Equal, name)]
}

/// The packet's source is in `prefix`.
pub(super) fn comes_from(prefix: IpNet) -> Vec<Expression> {
    let family = Family::of(prefix.addr());
    let mask = Bitwise::Mask(DataAttribute::Value(octets(prefix.netmask())));
    let zeros = vec![0; family.length() as usize];
    let masked = Expressions::Bitwise(vec![
        Bitwise::SourceRegister(Register::Reg1),
        Bitwise::DestinationRegister(Register::Reg1),
        Bitwise::Length(family.length()),
        mask,
        Bitwise::Xor(DataAttribute::Value(zeros)),
    ]);
    vec![
        load(family, Field::Source),
        masked.into(),
        compare(Operator::Equal, octets(prefix.network())),
    ]
}

/// An address of the packet is in the set `name`.
pub(super) fn is_in_set(family: Family, field: Field, name: &str, id: u32) -> [Expression; 2] {
    let lookup = Expressions::Lookup(vec![
        Lookup::Set(name.to_owned()),
        Lookup::SourceRegister(Register::Reg1),
        Lookup::SetId(id),
    ]);
    [load(family, field), lookup.into()]
}

/// The packet is dropped.
pub(super) fn drop_it() -> Expression {
    let verdict = DataAttribute::Verdict(vec![VerdictAttribute::Code(DROP)]);
    let immediate = Expressions::Immediate(vec![
        Immediate::DestinationRegister(Register::Verdict),
        Immediate::Data(verdict),
    ]);
    immediate.into()
}

/// The flow's source becomes `address`. The port stays, if it is free.
pub(super) fn leave_from(address: IpAddr) -> [Expression; 2] {
    let immediate = Expressions::Immediate(vec![
        Immediate::DestinationRegister(Register::Reg1),
        Immediate::Data(DataAttribute::Value(octets(address))),
    ]);
    [immediate.into(), source_nat(Family::of(address))]
}

/// The flow's source becomes what the map `name` has for the bucket of its source.
pub(super) fn leave_from_one_of(family: Family, name: &str, id: u32) -> [Expression; 4] {
    let bucket = [
        number(hash::SREG, Register::Reg1.into()),
        number(hash::DREG, Register::Reg2.into()),
        number(hash::LEN, family.length()),
        number(hash::MODULUS, BUCKETS),
        number(hash::SEED, HASH_SEED),
    ];
    let lookup = Expressions::Lookup(vec![
        Lookup::Set(name.to_owned()),
        Lookup::SourceRegister(Register::Reg2),
        Lookup::DestinationRegister(Register::Reg1),
        Lookup::SetId(id),
    ]);
    [
        load(family, Field::Source),
        other("hash", bucket.into()),
        lookup.into(),
        source_nat(family),
    ]
}

fn source_nat(family: Family) -> Expression {
    let attributes = vec![
        number(nat::TYPE, nat::SNAT),
        number(nat::FAMILY, family.protocol().into()),
        number(nat::REG_ADDR_MIN, Register::Reg1.into()),
    ];
    other("nat", attributes)
}

fn load(family: Family, field: Field) -> Expression {
    let payload = Expressions::Payload(vec![
        Payload::DestinationRegister(Register::Reg1),
        Payload::Base(NETWORK_HEADER),
        Payload::Offset(family.offset(field)),
        Payload::Len(family.length()),
    ]);
    payload.into()
}

fn meta(key: MetaKey) -> Expression {
    Expressions::Meta(vec![
        Meta::Key(key),
        Meta::DestinationRegister(Register::Reg1),
    ])
    .into()
}

fn compare(operator: Operator, value: Vec<u8>) -> Expression {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(Register::Reg1),
        Cmp::Op(operator),
        Cmp::Data(DataAttribute::Value(value)),
    ])
    .into()
}

fn other(name: &str, attributes: Vec<DefaultNla>) -> Expression {
    Expressions::Other {
        expression_type: name.to_owned(),
        attributes,
    }
    .into()
}

fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}
