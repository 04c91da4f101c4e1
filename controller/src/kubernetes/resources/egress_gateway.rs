//! `EgressGateway`: which nodes may own which egress IPs, and for whom.
//!
//! The shape is that of Spiderpool's resource of the same name, as far as this project does the
//! same. There are no policies that pick traffic: a gateway names its sources itself.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printed column has a type of its own"
)]
#![expect(
    unreachable_pub,
    reason = "`KubeSchema` makes structs inside functions as public as those they are made from"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Timestamp;

/// What a gateway shall be.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "pulsepath.dev",
    version = "v1alpha1",
    kind = "EgressGateway",
    plural = "egressgateways",
    shortname = "egw",
    category = "pulsepath",
    status = "EgressGatewayStatus",
    derive = "PartialEq",
    doc = "Egress IPs that exactly one of the selected nodes owns at a time, and whose traffic leaves from them.",
    printcolumn(name = "ADDRESSES", type_ = "integer", json_path = ".status.addresses"),
    printcolumn(name = "ASSIGNED", type_ = "integer", json_path = ".status.assigned"),
    printcolumn(
        name = "CANDIDATES",
        type_ = "integer",
        json_path = ".status.candidates"
    ),
    printcolumn(
        name = "ACCEPTED",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].reason"
    ),
    printcolumn(
        name = "DEFAULT",
        type_ = "boolean",
        json_path = ".spec.clusterDefault"
    ),
    printcolumn(
        name = "IPV4DEFAULTEIP",
        type_ = "string",
        json_path = ".spec.ippools.ipv4DefaultEIP",
        priority = 1
    ),
    printcolumn(
        name = "IPV6DEFAULTEIP",
        type_ = "string",
        json_path = ".spec.ippools.ipv6DefaultEIP",
        priority = 1
    ),
    printcolumn(
        name = "OWNERS",
        type_ = "string",
        json_path = ".status.owners",
        priority = 1
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.clusterDefault || size(self.sources) > 0")
        .message("clusterDefault needs sources, of which the gateway serves what no other one names"),
)]
pub struct EgressGatewaySpec {
    /// Whether it serves only those of its sources that no other gateway names. At most one gateway
    /// does.
    #[serde(default)]
    pub cluster_default: bool,
    /// Which nodes may own its addresses.
    pub node_selector: NodeSelector,
    /// Its egress IPs.
    #[serde(default)]
    pub ippools: IpPools,
    /// Prefixes, or single addresses, whose traffic leaves from its egress IPs, such as Pods'.
    #[serde(default)]
    #[schemars(length(max = 128), inner(length(max = 64)))]
    #[x_kube(
        validation = Rule::new("self.all(s, isIP(s) || isCIDR(s) && cidr(s) == cidr(s).masked())")
            .message("sources must be addresses or prefixes without bits beyond their length"),
    )]
    pub sources: Vec<String>,
    /// On which interface of a node its addresses are configured. Without it: on the one whose subnet
    /// holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub interface: Option<String>,
    /// Its addresses are routed to the nodes, not resolved on a link.
    #[serde(default)]
    pub routed: bool,
    /// At most so many of its addresses are on one node. Without it: as many as the balance asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub max_per_node: Option<i32>,
}

/// Which nodes may own a gateway's addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.policy)")
        .message("nodeSelector.policy is not supported: addresses are always spread evenly"),
)]
pub struct NodeSelector {
    /// Selects nodes by their labels; an empty one selects every node.
    pub selector: LabelSelector,
    /// Not supported: addresses are always spread evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// Egress IPs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.ipv4DefaultEIP) || self.ipv4DefaultEIP == '' || isIP(self.ipv4DefaultEIP) && \
         ip(self.ipv4DefaultEIP).family() == 4 && size(self.ipv4) > 0"
    ).message("ipv4DefaultEIP must be an IPv4 address out of ipv4"),
    validation = Rule::new(
        "!has(self.ipv6DefaultEIP) || self.ipv6DefaultEIP == '' || isIP(self.ipv6DefaultEIP) && \
         ip(self.ipv6DefaultEIP).family() == 6 && size(self.ipv6) > 0"
    ).message("ipv6DefaultEIP must be an IPv6 address out of ipv6"),
)]
pub struct IpPools {
    /// IPv4 addresses, ranges (10.6.1.60-10.6.1.65) and prefixes (10.6.1.64/28).
    #[serde(default)]
    #[schemars(length(max = 128), inner(length(max = 64)))]
    #[x_kube(
        validation = Rule::new(
            "self.all(p, p == '' || (p.contains('-') ? \
             p.split('-').size() == 2 && p.split('-').all(a, isIP(a) && ip(a).family() == 4) : \
             isCIDR(p) ? cidr(p).ip().family() == 4 && cidr(p) == cidr(p).masked() : \
             isIP(p) && ip(p).family() == 4))"
        ).message("ipv4 must hold IPv4 addresses, ranges, and prefixes without bits beyond their length"),
    )]
    pub ipv4: Vec<String>,
    /// The same for IPv6.
    #[serde(default)]
    #[schemars(length(max = 128), inner(length(max = 80)))]
    #[x_kube(
        validation = Rule::new(
            "self.all(p, p == '' || (p.contains('-') ? \
             p.split('-').size() == 2 && p.split('-').all(a, isIP(a) && ip(a).family() == 6) : \
             isCIDR(p) ? cidr(p).ip().family() == 6 && cidr(p) == cidr(p).masked() : \
             isIP(p) && ip(p).family() == 6))"
        ).message("ipv6 must hold IPv6 addresses, ranges, and prefixes without bits beyond their length"),
    )]
    pub ipv6: Vec<String>,
    /// From which IPv4 address its sources' traffic leaves. Without it: each source has its own.
    #[serde(
        default,
        rename = "ipv4DefaultEIP",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub ipv4_default_eip: Option<String>,
    /// The same for IPv6.
    #[serde(
        default,
        rename = "ipv6DefaultEIP",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub ipv6_default_eip: Option<String>,
}

/// What became of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressGatewayStatus {
    /// Generation of the spec that this was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many egress IPs it has.
    pub addresses: i32,
    /// How many of them have an owner.
    pub assigned: i32,
    /// How many nodes it selects.
    pub candidates: i32,
    /// The nodes that own its addresses, for people.
    pub owners: String,
    /// Nodes that own its addresses, and, up to a limit, others that it selects.
    pub node_list: Vec<GatewayNode>,
    /// Addresses without an owner.
    pub unassigned: Vec<Unassigned>,
    /// `Accepted`: whether the spec is in force. `Assigned`: whether every address has an owner.
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

/// A node that a gateway selects, or that owns one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayNode {
    /// The node.
    pub name: String,
    /// How it is.
    pub status: NodeReadiness,
    /// The addresses that it owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eips: Vec<Eip>,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeReadiness {
    /// AVAILABLE: it may be given addresses.
    Ready,
    /// UNAVAILABLE: its agent is silent, it keeps what it has.
    Unavailable,
    /// UNREACHABLE: it loses what it has.
    Unreachable,
    /// Nothing is known of it yet.
    Unknown,
}

/// An address that a node owns. One of `ipv4` and `ipv6` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Eip {
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// Since when the node owns it.
    #[schemars(with = "Option<Time>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Prefixes whose traffic leaves from it. Spiderpool has `policies` here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// An address without an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unassigned {
    /// The address.
    pub address: String,
    /// Why nobody owns it, in one word.
    pub reason: String,
}
