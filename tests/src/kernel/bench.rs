//! The bench's kernel programs, on a [`Reflector`]'s maps.

use std::fs;

use anyhow::{Context, Result};
use aya::maps::{Array, MapData};
use aya::{Ebpf, EbpfLoader};

use super::Reflector;

/// Words of the frame that the programs put back before every run.
pub const TEMPLATE_WORDS: usize = 19;
const OBJECT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/bpf/pulsepath-bench.o"
);
/// The maps that the reflector and the bench's programs share.
const SHARED: [&str; 9] = [
    "PROBE_CONFIG",
    "PROBE_KEYS",
    "AGENT_BEAT",
    "ASSIGNMENT",
    "WITNESSES",
    "NODE_LEASE",
    "REFLECT_STATS",
    "PROBERS",
    "TUNNEL_SEEN",
];

/// Opens the programs' object. None of them is loaded yet.
///
/// # Errors
/// The object is not built, or the kernel refuses its maps.
pub fn open(reflector: &Reflector) -> Result<Ebpf> {
    let object = fs::read(OBJECT)
        .with_context(|| format!("read {OBJECT}: run `cargo xtask bench reflector`"))?;
    let mut loader = EbpfLoader::new();
    for map in SHARED {
        loader.map_pin_path(map, reflector.directory().join(map));
    }
    Ok(loader.load(&object)?)
}

/// Makes `frame`, of whole words, what the programs put back.
///
/// # Errors
/// The map is not there, or cannot be written.
pub fn set_template(bench: &mut Ebpf, frame: &[u8]) -> Result<()> {
    let mut template = [0; TEMPLATE_WORDS];
    for (word, chunk) in template.iter_mut().zip(frame.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*chunk);
    }
    let map = bench.map_mut("TEMPLATE").context("no map TEMPLATE")?;
    let mut map: Array<&mut MapData, [u64; TEMPLATE_WORDS]> = map.try_into()?;
    Ok(map.set(0, template, 0)?)
}
