//! Maps of counters, one per outcome and CPU.

use aya::maps::{MapData, MapError, PerCpuArray, PerCpuValues};
use probe_ebpf::fence::FenceOutcome;
use probe_ebpf::maps::{FenceStat, MapValue, ReflectStat};
use probe_ebpf::outcome::Outcome;

use super::error::KernelError;
use super::maps::{FENCE_STATS, REFLECT_STATS};
use super::value::Value;

/// What became of how many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter<O = Outcome> {
    /// What became of them.
    pub outcome: O,
    /// Packets since the maps were made.
    pub packets: u64,
}

/// The value of a map of counters.
pub(super) trait Stat: MapValue {
    /// What is counted.
    type Outcome: Copy + PartialEq + 'static;
    /// The map's name.
    const MAP: &'static str;
    /// Everything that is counted, in the order of the counters.
    const OUTCOMES: &'static [Self::Outcome];

    fn packets(&self) -> u64;
    /// The name beside the counter.
    fn outcome(&mut self) -> &mut Self::Outcome;
}

impl Stat for ReflectStat {
    type Outcome = Outcome;
    const MAP: &'static str = REFLECT_STATS;
    const OUTCOMES: &'static [Outcome] = Outcome::ALL;

    fn packets(&self) -> u64 {
        self.packets
    }

    fn outcome(&mut self) -> &mut Outcome {
        &mut self.outcome
    }
}

impl Stat for FenceStat {
    type Outcome = FenceOutcome;
    const MAP: &'static str = FENCE_STATS;
    const OUTCOMES: &'static [FenceOutcome] = FenceOutcome::ALL;

    fn packets(&self) -> u64 {
        self.packets
    }

    fn outcome(&mut self) -> &mut FenceOutcome {
        &mut self.outcome
    }
}

/// Every counter, summed over the CPUs, in the order of their outcomes.
pub(super) fn counters<S: Stat>(
    map: &PerCpuArray<MapData, Value<S>>,
) -> Result<Vec<Counter<S::Outcome>>, KernelError> {
    let counter = |(index, &outcome): (u32, &S::Outcome)| {
        let stats = read(map, index)?;
        Ok(Counter {
            outcome,
            packets: stats.iter().map(|stat| stat.0.packets()).sum(),
        })
    };
    (0..).zip(S::OUTCOMES).map(counter).collect()
}

/// Writes each counter's name beside it, for whoever dumps the map. Counters that bear theirs are
/// left alone: a packet that is counted at that moment would be lost.
pub(super) fn name_counters<S: Stat>(
    map: &mut PerCpuArray<MapData, Value<S>>,
) -> Result<(), KernelError> {
    for (index, &outcome) in (0..).zip(S::OUTCOMES) {
        let mut stats: Vec<_> = read(map, index)?.iter().copied().collect();
        if stats.iter_mut().all(|stat| *stat.0.outcome() == outcome) {
            continue;
        }
        for stat in &mut stats {
            *stat.0.outcome() = outcome;
        }
        let written = PerCpuValues::try_from(stats)
            .map_err(MapError::IoError)
            .and_then(|stats| map.set(index, stats, 0));
        written.map_err(KernelError::map("write", S::MAP))?;
    }
    Ok(())
}

fn read<S: Stat>(
    map: &PerCpuArray<MapData, Value<S>>,
    index: u32,
) -> Result<PerCpuValues<Value<S>>, KernelError> {
    map.get(&index, 0).map_err(KernelError::map("read", S::MAP))
}
