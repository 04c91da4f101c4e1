//! The reflector in user space, for nodes where no kernel program can be attached.
//!
//! It runs the same packet logic as the kernel programs. What it cannot do: answer while the agent
//! is down.

mod frame;
mod node;
mod socket;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe_ebpf::maps::{AgentBeat, KEY_SLOTS, ProbeConfig, ProbeKey, Switch};
use tokio::task::JoinHandle;

pub(super) use node::UserSpaceNode;
use socket::ReflectorSocket;

/// The node, shared between the reflector's sockets and the agent.
#[derive(Clone)]
pub(super) struct SharedNode(Arc<Mutex<UserSpaceNode>>);

impl SharedNode {
    /// The node, for a moment.
    pub(super) fn lock(&self) -> MutexGuard<'_, UserSpaceNode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reflector in user space: a socket for each management address and port.
pub(super) struct UserSpaceReflector {
    node: SharedNode,
    sockets: HashMap<SocketAddr, JoinHandle<()>>,
}

impl UserSpaceReflector {
    /// A reflector that answers nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let node = UserSpaceNode::new()?;
        Ok(Self {
            node: SharedNode(Arc::new(Mutex::new(node))),
            sockets: HashMap::new(),
        })
    }

    /// The node as it stands.
    pub(super) fn node(&self) -> &SharedNode {
        &self.node
    }

    pub(super) fn set_keys(&self, keys: [ProbeKey; KEY_SLOTS]) {
        self.node.lock().set_keys(keys);
    }

    pub(super) fn set_beat(&self, beat: AgentBeat) {
        self.node.lock().set_beat(beat);
    }

    /// Answers on these addresses, and on no others.
    pub(super) fn serve(&mut self, config: &ProbeConfig, addresses: &[IpAddr]) -> io::Result<()> {
        self.node.lock().set_config(*config);
        let mut wanted = Vec::new();
        for &address in addresses {
            wanted.push(SocketAddr::new(address, config.probe_port));
            if config.sbfd == Switch::On {
                wanted.push(SocketAddr::new(address, config.sbfd_port));
            }
        }
        self.sockets.retain(|address, task| {
            let keep = wanted.contains(address) && !task.is_finished();
            if !keep {
                task.abort();
            }
            keep
        });
        for address in wanted {
            if !self.sockets.contains_key(&address) {
                let socket = ReflectorSocket::bind(address, config)?;
                self.sockets
                    .insert(address, tokio::spawn(socket.serve(self.node.clone())));
            }
        }
        Ok(())
    }
}

impl Drop for UserSpaceReflector {
    fn drop(&mut self) {
        for task in self.sockets.values() {
            task.abort();
        }
    }
}
