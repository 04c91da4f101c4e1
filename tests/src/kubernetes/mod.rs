//! A real Kubernetes cluster on this machine.
//!
//! Its API server, controller manager and scheduler run in the hub's namespace, and on every node of a
//! [`Cluster`](crate::Cluster) a real kubelet with containerd and runc, so that what the chart renders (images,
//! mounts, probes, security contexts, tokens) means here what it means elsewhere. There is no
//! kube-proxy: the `kubernetes` Service's address is the API server's own, and no other is reached.
//!
//! Everything that a node writes goes to its directory or is seen by that node alone (`files/node.sh`).

mod account;
mod authority;
mod client;
mod control_plane;
mod image;
mod installation;
mod keeper;
mod kubeconfig;
mod machine;
mod programs;
mod site;

pub use self::account::{Account, Right};
pub use self::client::Client;
pub use self::control_plane::ControlPlane;
pub use self::image::{REGISTRY, write_images};
pub use self::installation::{ADDRESS_ANNOTATION, Installation, Ownership, RELEASE, TAGS};
pub use self::keeper::Keeper;
pub use self::machine::Machine;
pub use self::programs::kubectl_path;
pub use self::site::{PATIENCE, Site};
