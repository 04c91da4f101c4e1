//! A prober that is as plain as can be: one socket, one probe at a time or a steady stream.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::probe::{Reply, Request};
use probe_user::keys::NodeKeys;
use pulsepath_tests::{Netns, Node};

/// How long a reply may take, even on a busy machine.
const PATIENCE: Duration = Duration::from_millis(300);
const STREAM_PERIOD: Duration = Duration::from_millis(1);

/// Probes one address of a node.
pub(crate) struct Prober {
    socket: UdpSocket,
    keys: NodeKeys,
    next: u32,
}

impl Prober {
    /// Probes `address` of `node` from inside `from`.
    pub(crate) fn new(from: &Netns, node: &Node, address: impl Into<IpAddr>) -> Self {
        let address = address.into();
        let any: SocketAddr = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        }
        .parse()
        .unwrap();
        let socket = from.enter(|| UdpSocket::bind(any)).unwrap().unwrap();
        socket.connect((address, 862)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            keys: NodeKeys::read(node.key_file()).unwrap(),
            next: 1,
        }
    }

    /// One probe, and its reply if there is one.
    pub(crate) fn ask(&mut self) -> Option<Reply> {
        let sequence = self.send()?;
        loop {
            let reply = self.receive()?;
            if reply.sequence == sequence {
                return Some(reply);
            }
        }
    }

    /// Sends a probe every millisecond from now on.
    pub(crate) fn stream(mut self) -> Stream {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        self.socket.set_read_timeout(Some(STREAM_PERIOD)).unwrap();
        let thread = thread::spawn(move || {
            let mut open = HashSet::new();
            let mut sent = 0;
            let mut due = Instant::now();
            while !told.load(Ordering::Relaxed) {
                if due <= Instant::now() {
                    open.extend(self.send());
                    sent += 1;
                    due += STREAM_PERIOD;
                }
                if let Some(reply) = self.receive() {
                    open.remove(&reply.sequence);
                }
            }
            self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
            while let Some(reply) = self.receive() {
                open.remove(&reply.sequence);
            }
            Tally {
                sent,
                lost: open.len(),
            }
        });
        Stream { over, thread }
    }

    fn send(&mut self) -> Option<u32> {
        let sequence = self.next;
        self.next += 1;
        let key = self.keys.current();
        let request = Request {
            sequence,
            timestamp: NtpTime::default(),
            error_estimate: UNKNOWN_ERROR,
            ssid: 0,
            flags: 0,
            key_id: key.id,
            lease_ms: 0,
            node_id: NodeId::of(self.keys.node()),
            epoch_floor: 0,
            incarnation: 0,
            node_time: 0,
            prober: 0,
        };
        // Where nobody listens, sending may report an earlier ICMP error.
        self.socket
            .send(&request.encode(&key.sip()).to_bytes())
            .ok()?;
        Some(sequence)
    }

    fn receive(&self) -> Option<Reply> {
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer).ok()?;
        Reply::decode(&buffer[..length], |_, _| Some(self.keys.current().sip())).ok()
    }
}

/// A stream of probes that goes on.
pub(crate) struct Stream {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Tally>,
}

/// What became of a stream.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) sent: usize,
    pub(crate) lost: usize,
}

impl Stream {
    /// Ends the stream, waits for the last replies, and asserts that none is missing.
    pub(crate) fn assert_nothing_lost(self, at_least: usize) {
        self.over.store(true, Ordering::Relaxed);
        let tally = self.thread.join().unwrap();
        assert_eq!(tally.lost, 0, "{tally:?}");
        assert!(tally.sent >= at_least, "only {tally:?}");
    }
}
