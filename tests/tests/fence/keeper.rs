//! Who keeps the node's lease: a controller as plain as can be, which sends real RENEWs.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::probe::{Answer, LEASE_HELD, RENEW, Reply, Request};
use probe_user::keys::NodeKeys;
use pulsepath_tests::eventually;

use crate::scene::{SOON, Scene};

const PERIOD: Duration = Duration::from_millis(50);
/// How long a reply may take before the next probe is sent.
const PATIENCE: Duration = Duration::from_millis(300);

/// A prober of the node's.
pub(crate) struct Keeper {
    socket: UdpSocket,
    keys: NodeKeys,
    sequence: u32,
    last: Option<Answer>,
}

impl Keeper {
    pub(crate) fn new(scene: &Scene) -> Self {
        let bind = || UdpSocket::bind("0.0.0.0:0").unwrap();
        let socket = scene.hub().enter(bind).unwrap();
        socket.connect((scene.node().ipv4(), 862)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            keys: NodeKeys::read(scene.node().key_file()).unwrap(),
            sequence: 0,
            last: None,
        }
    }

    /// Sends one probe, with what the last reply said, and returns the reply. `lease_ms` 0: it asks
    /// for no lease.
    pub(crate) fn ask(&mut self, lease_ms: u32) -> Option<Answer> {
        self.sequence += 1;
        let key = self.keys.current();
        let request = Request {
            sequence: self.sequence,
            timestamp: NtpTime(0),
            error_estimate: UNKNOWN_ERROR,
            ssid: 0,
            flags: if lease_ms > 0 { RENEW } else { 0 },
            key_id: key.id,
            lease_ms,
            node_id: NodeId::of(self.keys.node()),
            epoch_floor: 0,
            incarnation: self.last.map_or(0, |it| it.incarnation),
            node_time: self.last.map_or(0, |it| it.node_time),
            prober: 0,
        };
        self.socket
            .send(&request.encode(&key.sip()).to_bytes())
            .ok()?;
        let mut buffer = [0; 256];
        loop {
            let length = self.socket.recv(&mut buffer).ok()?;
            let reply = Reply::decode(&buffer[..length], |_, _| Some(key.sip())).ok()?;
            if reply.sequence == self.sequence {
                self.last = Some(reply.answer);
                return self.last;
            }
        }
    }

    /// Has the lease held, once, for about this long.
    pub(crate) fn renew(&mut self, lease_ms: u32) -> Answer {
        eventually(SOON, || {
            self.ask(0)?;
            self.ask(lease_ms).filter(|it| it.flags & LEASE_HELD != 0)
        })
    }

    /// Keeps the lease held until it is told to stop.
    pub(crate) fn keep(mut self, lease_ms: u32) -> Keeping {
        self.renew(lease_ms);
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                self.ask(lease_ms);
                thread::sleep(PERIOD);
            }
        });
        Keeping {
            over,
            thread: Some(thread),
        }
    }
}

/// A lease that is being kept, until this is dropped.
pub(crate) struct Keeping {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
