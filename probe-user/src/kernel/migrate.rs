//! Taking over from an older layout version, so that an upgrade is no reboot. Every step may be
//! repeated: whoever is killed half-way is followed by an agent that goes on.

use std::fs;
use std::path::Path;

use aya::Ebpf;
use aya::maps::{MapData, MapError, MapInfo, MapType};
use tracing::info;

use super::clsact;
use super::entries;
use super::error::KernelError;
use super::links;
use super::maps::{
    AGENT_BEAT, ASSIGNMENT, EGRESS_IPS, Maps, NODE_LEASE, PROBE_CONFIG, PROBE_KEYS, WITNESS_MEMORY,
    WITNESSES,
};

/// Carries the values of the older version's maps over, unless that has been done: then the new
/// maps have their incarnation.
///
/// Fields are only ever added at a value's end. So what both versions know is copied, and what
/// only the new one knows stays zero.
pub(super) fn carry_over(older: &Path, directory: &Path) -> Result<(), KernelError> {
    if Maps::open(directory)?.assignment()?.incarnation != 0 {
        return Ok(());
    }
    // The incarnation comes last, since it says that all is done.
    for name in [
        PROBE_CONFIG,
        PROBE_KEYS,
        AGENT_BEAT,
        EGRESS_IPS,
        WITNESSES,
        WITNESS_MEMORY,
        NODE_LEASE,
        ASSIGNMENT,
    ] {
        if older.join(name).exists() {
            copy(&older.join(name), &directory.join(name), name)?;
        }
    }
    info!(from = %older.display(), to = %directory.display(), "carried an older layout over");
    Ok(())
}

/// Copies what both maps have room for. Keys never change.
fn copy(from: &Path, to: &Path, name: &'static str) -> Result<(), KernelError> {
    let open = |path: &Path| MapData::from_pin(path).map_err(KernelError::map("open", name));
    let (old, new) = (open(from)?, open(to)?);
    let info = MapInfo::from_pin(to).map_err(KernelError::map("examine", name))?;
    let fits = |key: &[u8]| match (info.map_type(), key.try_into().map(u32::from_ne_bytes)) {
        (Ok(MapType::Array), Ok(index)) => index < info.max_entries(),
        _ => true,
    };
    let copied = entries::keys(&old).and_then(|keys| {
        keys.iter().filter(|key| fits(key)).try_for_each(|key| {
            let value = entries::read_entry(&old, key)?;
            entries::write_entry(&new, key, value)
        })
    });
    copied.map_err(|error| KernelError::map("carry over", name)(MapError::IoError(error)))
}

/// Puts this build's programs into the older version's links, and moves their pins.
pub(super) fn adopt_links(
    programs: &mut Ebpf,
    older: &Path,
    directory: &Path,
) -> Result<(), KernelError> {
    for link in links::remove_dead(older)? {
        links::replace_program(programs, &link)?;
        let name = link.path.file_name().unwrap_or_default();
        let moved = directory.join(name);
        fs::rename(&link.path, &moved).map_err(KernelError::file("move a link to", &moved))?;
    }
    clsact::adopt(programs, older, directory)?;
    Ok(())
}
