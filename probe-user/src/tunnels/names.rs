//! Names of tunnels' other ends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A node, and the addresses that its tunnels end at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub node: String,
    /// Its outer addresses.
    pub addresses: Vec<IpAddr>,
}

/// The nodes by their tunnels' addresses, as a controller last told; shared by whoever has a clone.
#[derive(Clone, Debug, Default)]
pub struct PeerNames(Arc<Mutex<HashMap<IpAddr, Arc<str>>>>);

impl PeerNames {
    /// These are the nodes from now on. Whether they are others than before.
    pub fn replace(&self, nodes: &[Named]) -> bool {
        let mut names = HashMap::new();
        for Named { node, addresses } in nodes {
            let node: Arc<str> = node.as_str().into();
            let all = addresses.iter();
            names.extend(all.map(|address| (address.to_canonical(), node.clone())));
        }
        let mut known = self.lock();
        let changed = *known != names;
        *known = names;
        changed
    }

    /// The node at an address, if it is one's.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        self.lock().get(&address).cloned()
    }

    /// The node at an address, or else the address.
    pub fn label(&self, address: IpAddr) -> String {
        self.name(address)
            .map_or_else(|| address.to_string(), |name| name.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_goes_by_its_nodes_name_or_by_its_address() {
        let names = PeerNames::default();
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(names.label(address), "10.0.0.1");
        let node = |node: &str| Named {
            node: node.to_owned(),
            addresses: vec!["::ffff:10.0.0.1".parse().unwrap()],
        };
        assert!(names.clone().replace(&[node("n1")]));
        assert_eq!(names.label(address), "n1");
        assert!(!names.replace(&[node("n1")]), "it is known already");
        assert!(names.replace(&[]));
        assert_eq!(names.label(address), "10.0.0.1", "the node is gone");
    }
}
