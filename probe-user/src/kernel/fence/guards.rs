//! The addresses that are guarded.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use aya::maps::{HashMap, MapData, MapError, PerCpuArray};
use nix::libc;
use probe_ebpf::fence::FenceOutcome;
use probe_ebpf::maps::{EgressGuard, EgressIp, FenceStat, Guard, MAX_EGRESS_IPS};

use super::{Fenced, NotFenced, status};
use crate::kernel::cause::os_error;
use crate::kernel::error::KernelError;
use crate::kernel::maps::{self, EGRESS_IPS, FENCE_STATS};
use crate::kernel::stats::{self, Counter};
use crate::kernel::value::Value;

/// The guards, and what the fence has counted.
pub struct Fence {
    directory: PathBuf,
    guards: HashMap<MapData, Value<EgressIp>, Value<EgressGuard>>,
    stats: PerCpuArray<MapData, Value<FenceStat>>,
}

impl Fence {
    /// Opens the maps that are pinned in `directory`.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        maps::check_pinned(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            guards: maps::open(directory, EGRESS_IPS)?,
            stats: maps::open(directory, FENCE_STATS)?,
        })
    }

    /// Guards an address on every fenced device. Takes effect at once, but for packets that are past
    /// the fence already. An address that is guarded stays so while its guard changes.
    ///
    /// # Errors
    /// The address is none that a packet may come from, or too many are guarded.
    pub fn guard(&mut self, address: IpAddr, guard: Guard) -> Result<(), KernelError> {
        let refused = |reason: String| KernelError::Unguardable { address, reason };
        let key = key(address).ok_or_else(|| refused("it is no host's address".to_owned()))?;
        if self.get(key)? == Some(guard) {
            return Ok(());
        }
        match self.guards.insert(Value(key), Value(guard.into()), 0) {
            Err(error) if os_error(&error) == Some(libc::E2BIG) => Err(refused(format!(
                "{MAX_EGRESS_IPS} addresses are guarded already"
            ))),
            result => result.map_err(KernelError::map("write", EGRESS_IPS)),
        }
    }

    /// Guards an address no longer: packets from it leave freely. Whether it was guarded.
    pub fn remove(&mut self, address: IpAddr) -> Result<bool, KernelError> {
        let Some(key) = key(address) else {
            return Ok(false);
        };
        match self.guards.remove(&Value(key)) {
            Ok(()) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(KernelError::map("write", EGRESS_IPS)(error)),
        }
    }

    /// Every guarded address.
    pub fn entries(&self) -> Result<BTreeMap<IpAddr, Guard>, KernelError> {
        let mut entries = BTreeMap::new();
        for entry in self.guards.iter() {
            match entry {
                Ok((key, value)) => {
                    let address = IpAddr::from(key.0.address).to_canonical();
                    entries.insert(address, value.0.guard);
                }
                // Removed between listing and reading.
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(KernelError::map("read", EGRESS_IPS)(error)),
            }
        }
        Ok(entries)
    }

    /// What became of packets at the fence, in the order of [`FenceOutcome::ALL`].
    pub fn counters(&self) -> Result<Vec<Counter<FenceOutcome>>, KernelError> {
        stats::counters(&self.stats)
    }

    /// Where the fence is in force, and on which of the devices that it was put on it is not, as
    /// seen from this process's network namespace.
    pub fn status(&self) -> Result<Vec<Result<Fenced, NotFenced>>, KernelError> {
        status(&self.directory)
    }

    pub(in crate::kernel) fn name_counters(&mut self) -> Result<(), KernelError> {
        stats::name_counters(&mut self.stats)
    }

    fn get(&self, key: EgressIp) -> Result<Option<Guard>, KernelError> {
        match self.guards.get(&Value(key), 0) {
            Ok(value) => Ok(Some(value.0.guard)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(KernelError::map("read", EGRESS_IPS)(error)),
        }
    }
}

fn is_missing(error: &MapError) -> bool {
    matches!(error, MapError::KeyNotFound) || os_error(error) == Some(libc::ENOENT)
}

/// The map's key for an address that a node can have. What addresses cannot are the ones that ARP
/// probes and duplicate address detection come from, and those of nobody in particular.
fn key(address: IpAddr) -> Option<EgressIp> {
    let address = address.to_canonical();
    if address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address == Ipv4Addr::BROADCAST
    {
        return None;
    }
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    Some(EgressIp { address })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(address: &str) -> Option<[u8; 16]> {
        key(address.parse().unwrap()).map(|key| key.address)
    }

    #[test]
    fn an_ipv4_address_has_one_key_however_it_is_written() {
        assert_eq!(bytes("10.0.0.1"), bytes("::ffff:10.0.0.1"));
        assert!(bytes("10.0.0.1").is_some());
    }

    #[test]
    fn addresses_that_no_host_has_are_not_guarded() {
        for address in ["0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1"] {
            assert_eq!(bytes(address), None, "{address}");
        }
        assert_eq!(bytes("255.255.255.255"), None);
    }
}
