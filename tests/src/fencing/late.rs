//! Probes, or their answers, that arrive much later than they were sent.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::libc;
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, sendto};

use crate::{Cluster, Direction, link};

/// How long the socket waits for the next frame: so late may one be beside its time.
const STEP: Duration = Duration::from_millis(2);
/// Of reflectors.
const PORT: u32 = 862;
/// Longer than a probe's frame.
const LONGEST: usize = 256;

/// Holds all probes between the controller's node and another one in one direction, each for the same
/// time, until it is dropped; what it holds then is lost. Everything else passes.
///
/// The frames are taken where they enter the hub, before a filter drops them there, and sent on from
/// the hub's port on the other side.
#[derive(Debug)]
pub(super) struct Late {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    from: u8,
}

impl Late {
    /// `direction` is the node's.
    ///
    /// # Errors
    /// Sockets or the filter cannot be made.
    pub(super) fn start(
        cluster: &Cluster,
        controller: u8,
        node: u8,
        direction: Direction,
        hold: Duration,
    ) -> Result<Self> {
        let (from, to) = match direction {
            Direction::ToNode => (controller, node),
            Direction::FromNode => (node, controller),
        };
        let mac = link::mac(cluster.node(to).netns(), "eth0")?;
        let filter = Filter { mac, direction };
        let [entry, exit] = [from, to].map(|index| cluster.node(index).port());
        let (socket, entry, exit) = cluster.hub().enter(|| -> Result<_> {
            let socket = link::socket_with(STEP)?;
            Ok((socket, link::address(&entry)?, link::address(&exit)?))
        })??;
        cluster.drop_matching(from, Direction::FromNode, &filter.bytecode())?;
        let stop = Arc::new(AtomicBool::new(false));
        let relay = Relay {
            socket,
            entry: entry.ifindex(),
            exit,
            filter,
            hold,
        };
        let until = stop.clone();
        let thread = std::thread::spawn(move || relay.run(&until));
        Ok(Self {
            stop,
            thread: Some(thread),
            from,
        })
    }

    /// Lets everything pass again.
    ///
    /// # Errors
    /// `tc` fails.
    pub(super) fn end(self, cluster: &Cluster) -> Result<()> {
        cluster.pass_packets(self.from)
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Frames that it did not deliver are lost, as are those that it held.
            let _ = thread.join();
        }
    }
}

/// Which frames are held.
#[derive(Clone, Copy, Debug)]
struct Filter {
    /// Whom they are for.
    mac: [u8; 6],
    /// To a reflector, or from one.
    direction: Direction,
}

impl Filter {
    /// Offset of the port that is a reflector's within a UDP header.
    const fn port_offset(self) -> usize {
        match self.direction {
            Direction::ToNode => 2,
            Direction::FromNode => 0,
        }
    }

    fn holds(self, frame: &[u8]) -> bool {
        let (protocol, udp) = match frame.get(12..14) {
            Some([0x08, 0x00]) => (23, 14 + 20),
            Some([0x86, 0xdd]) => (20, 14 + 40),
            _ => return false,
        };
        let port = udp + self.port_offset();
        frame.starts_with(&self.mac)
            && frame.get(protocol) == Some(&17)
            && frame.get(port..port + 2) == Some(&(PORT as u16).to_be_bytes())
    }

    /// The same as a classic BPF program that drops (2) them, and passes (0) all others.
    fn bytecode(self) -> String {
        let [a, b, c, d, e, f] = self.mac.map(u32::from);
        let (high, low) = (a << 24 | b << 16 | c << 8 | d, e << 8 | f);
        let offset = self.port_offset();
        let (ipv4, ipv6) = (14 + 20 + offset, 14 + 40 + offset);
        // Each: operation, jumps if true and if false, operand. 32, 40 and 48 load a word, a half and
        // a byte; 21 compares; 6 returns.
        let program = [
            "32 0 0 0".to_owned(),
            format!("21 0 14 {high}"),
            "40 0 0 4".to_owned(),
            format!("21 0 12 {low}"),
            "40 0 0 12".to_owned(),
            "21 1 0 2048".to_owned(),
            "21 4 9 34525".to_owned(),
            "48 0 0 23".to_owned(),
            "21 0 7 17".to_owned(),
            format!("40 0 0 {ipv4}"),
            format!("21 4 5 {PORT}"),
            "48 0 0 20".to_owned(),
            "21 0 3 17".to_owned(),
            format!("40 0 0 {ipv6}"),
            format!("21 0 1 {PORT}"),
            "6 0 0 2".to_owned(),
            "6 0 0 0".to_owned(),
        ];
        format!("{},{},", program.len(), program.join(","))
    }
}

/// Takes frames, and sends them on when it is time.
struct Relay {
    socket: OwnedFd,
    /// Index of the interface by which they come.
    entry: usize,
    exit: LinkAddr,
    filter: Filter,
    hold: Duration,
}

impl Relay {
    fn run(&self, until: &AtomicBool) {
        let mut held: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut buffer = [0; LONGEST];
        while !until.load(Ordering::Relaxed) {
            let received = recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut buffer);
            if let Ok((length, Some(from))) = received {
                let frame = &buffer[..length.min(LONGEST)];
                let incoming = from.as_ref().sll_pkttype != libc::PACKET_OUTGOING;
                if incoming && from.ifindex() == self.entry && self.filter.holds(frame) {
                    held.push_back((Instant::now() + self.hold, frame.to_vec()));
                }
            }
            while let Some((_, frame)) = held.pop_front_if(|(due, _)| *due <= Instant::now()) {
                // One that cannot be sent is lost, as on any network.
                let _ = sendto(
                    self.socket.as_raw_fd(),
                    &frame,
                    &self.exit,
                    MsgFlags::empty(),
                );
            }
        }
    }
}
