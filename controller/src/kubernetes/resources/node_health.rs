//! `NodeHealth`: what is known of a node. Written by the controller, on changes only.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printed column has a type of its own"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Reason, State, Timestamp};

/// Nothing is wished for: the object is there to say something.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "pulsepath.dev",
    version = "v1alpha1",
    kind = "NodeHealth",
    plural = "nodehealths",
    shortname = "nh",
    category = "pulsepath",
    status = "NodeHealthStatus",
    no_spec,
    derive = "PartialEq",
    doc = "What is known of the node with the same name. The controller writes it.",
    printcolumn(name = "STATE", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "SINCE", type_ = "date", json_path = ".status.since"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "AGENT", type_ = "string", json_path = ".status.agent.state"),
    printcolumn(
        name = "LAST REPLY",
        type_ = "date",
        json_path = ".status.lastReply",
        priority = 1
    ),
    printcolumn(
        name = "RTT",
        type_ = "string",
        json_path = ".status.roundTrip.average",
        priority = 1
    ),
    printcolumn(
        name = "CONDITIONS",
        type_ = "string",
        json_path = ".status.conditions[?(@.status==\"True\")].type"
    ),
    printcolumn(
        name = "ADDRESSES",
        type_ = "string",
        json_path = ".status.addresses",
        priority = 1
    )
)]
pub struct NodeHealthSpec {}

/// What is known of a node, as of the last change of its state or conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeHealthStatus {
    /// Its state.
    pub state: State,
    /// Why it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When it got into that state.
    #[schemars(with = "Option<Time>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When it last answered before this was written.
    #[schemars(with = "Option<Time>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reply: Option<Timestamp>,
    /// Sixteen hexadecimal digits, others each time that the node's kernel lost its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// What the last reply said of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentHealth>,
    /// Where it is probed.
    pub addresses: Vec<String>,
    /// How long replies took when this was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTrip>,
    /// What else is to be said of it: `ControllerPathDown`, `Draining`, `Duplicate`, `NotFenced`,
    /// `NotProbed` and `Misconfigured` are `True` while they are so, and absent otherwise.
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

/// What a node's replies say of its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentHealth {
    /// Whether it gives signs of life.
    pub state: AgentState,
    /// Whether its local checks pass.
    pub checks_ok: bool,
}

/// Whether an agent gives signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentState {
    /// It does.
    Up,
    /// It does not.
    Silent,
    /// It said that it ends.
    Draining,
}

/// How long replies took, as text such as `184us`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrip {
    /// Moving average.
    pub average: String,
    /// The shortest.
    pub min: String,
    /// The longest.
    pub max: String,
}
