//! The prober without sockets.

use std::time::{Duration, Instant};

use probe_ebpf::siphash::SipKey;
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, NEVER, PROBE_LEN, ProbePacket};
use probe_ebpf::wire::{NodeId, PROBE_PORT};
use probe_user::keys::NodeKeys;
use probe_user::session::{ProbeSettings, Prober, Target, TargetId, Transmit};

use super::field::address;

const PERIOD: Duration = Duration::from_secs(1);
const STEPS: u32 = 1000;
const ROUNDS: u32 = 3;

/// Time per probe, ns.
pub(super) struct Cost {
    /// From the schedule to the signed packet.
    pub(super) probe: f64,
    /// From the packet to the event.
    pub(super) reply: f64,
}

/// Probes `nodes` nodes a few times over, and takes the time of all but the first round.
pub(super) fn cost(nodes: u32, keys: &NodeKeys) -> Cost {
    let start = Instant::now();
    let (mut probe, mut reply, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    let mut prober = prober(start, nodes, keys);
    let key = keys.current().sip();
    for step in 1..=ROUNDS * STEPS {
        let now = start + PERIOD / STEPS * step;
        let begun = Instant::now();
        prober.poll(now);
        let probes: Vec<Transmit> = std::iter::from_fn(|| prober.poll_transmit(now)).collect();
        let made = begun.elapsed();
        let replies = probes
            .iter()
            .map(|probe| answer(probe, step, &key))
            .collect::<Vec<_>>();
        let begun = Instant::now();
        for (probe, reply) in probes.iter().zip(&replies) {
            prober.handle_datagram(now, probe.to, reply);
        }
        while prober.poll_event().is_some() {}
        if step > STEPS {
            probe += made;
            reply += begun.elapsed();
            count += probes.len();
        }
    }
    let each = |time: Duration| time.as_nanos() as f64 / count as f64;
    Cost {
        probe: each(probe),
        reply: each(reply),
    }
}

fn prober(now: Instant, nodes: u32, keys: &NodeKeys) -> Prober {
    let settings = ProbeSettings {
        period: PERIOD,
        reply_window: PERIOD,
        port: PROBE_PORT,
    };
    let mut prober = Prober::new(settings, 1);
    for index in 0..nodes {
        let target = Target {
            node: NodeId::of(keys.node()),
            keys: keys.clone(),
            addresses: vec![address(index)],
        };
        let inserted = prober.insert(now, TargetId(index), target);
        assert!(inserted.is_ok(), "addresses are distinct");
    }
    prober
}

fn answer(probe: &Transmit, step: u32, key: &SipKey) -> [u8; PROBE_LEN] {
    let mut packet = ProbePacket::from_bytes(&probe.payload);
    let answer = Answer {
        received: NtpTime::default(),
        sent: NtpTime::default(),
        error_estimate: 1,
        ttl: 64,
        flags: AGENT_UP,
        lease_ms: 0,
        epoch: 0,
        incarnation: 1,
        node_time: step.into(),
        beat_age_ms: 1,
        tunnel_age_ms: NEVER,
    };
    packet.answer(&answer, key);
    packet.to_bytes()
}
