//! A node that answers in user space, and not as it should.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use probe_ebpf::siphash::SipKey;
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, NEVER, PROBE_LEN, ProbePacket};
use pulsepath_tests::Netns;

/// So that the thread sees when it has to stop.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Runs until dropped.
pub(crate) struct FalseNode {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FalseNode {
    /// Answers probes to `address`: `answers` is given the honest reply and where it would go, and
    /// returns the datagrams to send there.
    pub(crate) fn start(
        netns: &Netns,
        address: IpAddr,
        key: SipKey,
        mut answers: impl FnMut([u8; PROBE_LEN], SocketAddr) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let bind = || UdpSocket::bind(SocketAddr::new(address, 862));
        let socket = netns.enter(bind).unwrap().unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut node_time = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut request = [0; PROBE_LEN];
                let Ok((_, from)) = socket.recv_from(&mut request) else {
                    continue;
                };
                node_time += 1;
                for datagram in answers(honest_reply(&request, node_time, &key), from) {
                    socket.send_to(&datagram, from).unwrap();
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for FalseNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the test has failed anyway.
            let _ = thread.join();
        }
    }
}

fn honest_reply(request: &[u8; PROBE_LEN], node_time: u64, key: &SipKey) -> [u8; PROBE_LEN] {
    let mut packet = ProbePacket::from_bytes(request);
    let answer = Answer {
        received: NtpTime::default(),
        sent: NtpTime::default(),
        error_estimate: 1,
        ttl: 64,
        flags: AGENT_UP,
        lease_ms: 0,
        epoch: 0,
        incarnation: 1,
        node_time,
        beat_age_ms: 1,
        tunnel_age_ms: NEVER,
    };
    packet.answer(&answer, key);
    packet.to_bytes()
}
