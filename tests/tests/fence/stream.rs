//! A thousand datagrams a second out of the node, each stamped with the time at which it is sent.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use nix::time::{ClockId, clock_gettime};
use pulsepath_tests::{Netns, eventually};

use crate::scene::{NETWORK, SOON, Scene};

const INTERVAL: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(100);
const BUFFER: usize = 8 << 20;

/// The node's clock, which the kernel's lease runs on, ns.
pub(crate) fn boot_now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[derive(Default)]
struct Shared {
    silent: AtomicBool,
    over: AtomicBool,
    sent: AtomicU64,
    /// When what arrived was sent.
    arrived: Mutex<Vec<u64>>,
}

/// The stream, until it is stopped.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    sender: JoinHandle<()>,
    receiver: JoinHandle<()>,
}

impl Stream {
    /// From a process inside `from` that sends from `source`, or from whatever the kernel chooses.
    pub(crate) fn start(scene: &Scene, from: &Netns, source: Option<Ipv4Addr>) -> Self {
        let listen = || UdpSocket::bind((NETWORK, 0)).unwrap();
        let receiving = scene.hub().enter(listen).unwrap();
        setsockopt(&receiving, RcvBufForce, &BUFFER).unwrap();
        receiving.set_read_timeout(Some(LOOK)).unwrap();
        let source = source.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let bind = || UdpSocket::bind((source, 0)).unwrap();
        let sending = from.enter(bind).unwrap();
        sending.connect(receiving.local_addr().unwrap()).unwrap();
        let shared = Arc::<Shared>::default();
        let (mine, its) = (shared.clone(), shared.clone());
        Self {
            shared,
            sender: thread::spawn(move || send(&sending, &mine)),
            receiver: thread::spawn(move || receive(&receiving, &its)),
        }
    }

    /// How many datagrams have arrived so far.
    pub(crate) fn arrived(&self) -> usize {
        self.shared.arrived.lock().unwrap().len()
    }

    /// Waits until this many more have arrived.
    pub(crate) fn wait_for(&self, more: usize) {
        let before = self.arrived();
        eventually(SOON, || self.arrived() >= before + more);
    }

    /// Waits until this many more have been sent.
    pub(crate) fn wait_for_sent(&self, more: u64) {
        let sent = || self.shared.sent.load(Ordering::Relaxed);
        let before = sent();
        eventually(SOON, || sent() >= before + more);
    }

    /// Stops sending, gives what is under way the time to arrive, and returns how many were sent,
    /// and when those that arrived were.
    pub(crate) fn finish(self) -> (u64, Vec<u64>) {
        self.shared.silent.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
        thread::sleep(3 * LOOK);
        self.shared.over.store(true, Ordering::Relaxed);
        self.receiver.join().unwrap();
        let arrived = self.shared.arrived.lock().unwrap().clone();
        (self.shared.sent.load(Ordering::Relaxed), arrived)
    }
}

fn send(socket: &UdpSocket, shared: &Shared) {
    while !shared.silent.load(Ordering::Relaxed) {
        // What the fence drops, the sender is told of: that is no reason to stop.
        let _ = socket.send(&boot_now().to_ne_bytes());
        shared.sent.fetch_add(1, Ordering::Relaxed);
        thread::sleep(INTERVAL);
    }
}

fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut stamp = [0; 8];
    loop {
        if let Ok(8) = socket.recv(&mut stamp) {
            let mut arrived = shared.arrived.lock().unwrap();
            arrived.push(u64::from_ne_bytes(stamp));
        } else if shared.over.load(Ordering::Relaxed) {
            return;
        }
    }
}
