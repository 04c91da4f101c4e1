//! The probes to one target that may still be answered.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use probe_ebpf::wire::ntp::NtpTime;

use super::stats::Rejection;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    Answered,
    /// Never left this host, or went to an address that is no longer the target's.
    Void,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    sent: Instant,
    timestamp: NtpTime,
    address: IpAddr,
    fate: Fate,
}

/// A ring of probes by sequence number, without gaps, oldest first. An answered probe stays until
/// its window closes, so that a second answer is known for what it is.
#[derive(Debug)]
pub(super) struct Window {
    /// Sequence number of the next probe.
    next: u32,
    /// Probes that have left the ring.
    forgotten: u32,
    probes: VecDeque<Outstanding>,
}

impl Window {
    pub(super) fn new(first_sequence: u32) -> Self {
        Self {
            next: first_sequence,
            forgotten: 0,
            probes: VecDeque::new(),
        }
    }

    /// Sequence number of the next probe.
    pub(super) fn next_sequence(&self) -> u32 {
        self.next
    }

    /// Adds a probe, and returns its sequence number.
    pub(super) fn push(&mut self, sent: Instant, timestamp: NtpTime, address: IpAddr) -> u32 {
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        self.probes.push_back(Outstanding {
            sent,
            timestamp,
            address,
            fate: Fate::Waiting,
        });
        sequence
    }

    fn oldest(&self) -> u32 {
        // The ring holds fewer than 2^32 probes: they would not fit into memory.
        self.next.wrapping_sub(self.probes.len() as u32)
    }

    fn get_mut(&mut self, sequence: u32) -> Option<&mut Outstanding> {
        let index = sequence.wrapping_sub(self.oldest());
        self.probes.get_mut(index as usize)
    }

    /// Marks the probe that an authentic reply answers, and returns when that was sent and when
    /// the answer counts as received: never before it was sent.
    pub(super) fn answer(
        &mut self,
        sequence: u32,
        timestamp: NtpTime,
        from: IpAddr,
        received: Instant,
        window: Duration,
    ) -> Result<(Instant, Instant), Rejection> {
        let before_oldest = self.oldest().wrapping_sub(sequence);
        if (1..=self.forgotten).contains(&before_oldest) {
            return Err(Rejection::Late);
        }
        let probe = self.get_mut(sequence).ok_or(Rejection::Replayed)?;
        if probe.timestamp != timestamp || probe.fate == Fate::Void {
            return Err(Rejection::Replayed);
        }
        if probe.address != from {
            return Err(Rejection::UnexpectedSource);
        }
        let received = received.max(probe.sent);
        if received - probe.sent > window {
            return Err(Rejection::Late);
        }
        if probe.fate == Fate::Answered {
            return Err(Rejection::Duplicate);
        }
        probe.fate = Fate::Answered;
        Ok((probe.sent, received))
    }

    /// Takes back a probe that could not be sent. Whether there was one.
    pub(super) fn void(&mut self, sequence: u32) -> bool {
        match self.get_mut(sequence) {
            Some(probe) if probe.fate == Fate::Waiting => {
                probe.fate = Fate::Void;
                true
            }
            _ => false,
        }
    }

    /// Takes back every probe to an address that is not to be kept.
    pub(super) fn void_others(&mut self, keep: impl Fn(IpAddr) -> bool) {
        for probe in self.probes.iter_mut().filter(|probe| !keep(probe.address)) {
            probe.fate = Fate::Void;
        }
    }

    /// Forgets the probes whose window has closed, and names those that were not answered.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        window: Duration,
        mut lost: impl FnMut(IpAddr, u32),
    ) {
        while let Some(probe) = self.probes.front() {
            if now.saturating_duration_since(probe.sent) <= window {
                break;
            }
            if probe.fate == Fate::Waiting {
                lost(probe.address, self.oldest());
            }
            self.probes.pop_front();
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }
}
