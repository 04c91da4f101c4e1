//! The controller in a Kubernetes cluster: nodes and gateways are objects, and so is what it says of
//! them.
//!
//! # What the controller does with the API server, and may do
//!
//! | group | resource | verbs | what for |
//! |---|---|---|---|
//! | core | nodes | list, watch | which nodes there are, their addresses and labels |
//! | pulsepath.dev | egressgateways | list, watch | which gateways there are |
//! | pulsepath.dev | egressgateways/status | patch | who owns which address |
//! | pulsepath.dev | nodehealths | list, create, delete | an object for each node; restored at the start |
//! | pulsepath.dev | nodehealths/status | patch | what is known of the node |
//! | events.k8s.io | events | create, patch | in namespace `default`, where those of cluster-scoped objects belong |
//! | coordination.k8s.io | leases | get, create, update | in the controller's namespace: who leads |
//! | core | configmaps | get, create, update | in the controller's namespace: the record of all assignments |
//!
//! The last two are roles in the controller's namespace; Kubernetes cannot restrict `create` by name,
//! `get` and `update` can be restricted to `kubernetes.lease.name` and `kubernetes.record`.

mod announcer;
mod conditions;
pub mod crds;
mod election;
mod gateway_status;
mod gateway_writer;
mod gateways;
mod health_writer;
mod leadership;
mod mirror;
mod node_status;
mod nodes;
mod patience;
mod place;
mod rebuilt;
mod record;
pub mod resources;
mod restored;
mod run;
mod words;
mod world;
mod writers;

pub use self::run::KubernetesError;

pub(crate) use self::run::run;
