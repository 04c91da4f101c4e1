//! Pulsepath in a real Kubernetes cluster.

mod harness;
mod replicas;
