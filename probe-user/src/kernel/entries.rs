//! Entries of maps whose sizes are known only at run time, and many at once: what aya does not offer.

#![expect(unsafe_code, reason = "raw system calls")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::MapData;
use nix::libc;

use super::sys::bpf;

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

#[derive(Default)]
#[repr(C)]
struct Element {
    descriptor: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Reads the entry at `key`.
///
/// # Panics
/// The key has not the map's key size.
pub(super) fn read_entry(map: &MapData, key: &[u8]) -> io::Result<Vec<u8>> {
    let (key_size, value_size) = sizes(map)?;
    assert_eq!(key.len(), key_size);
    let mut value = vec![0_u8; value_size];
    let mut element = Element {
        descriptor: map.fd().as_fd().as_raw_fd() as u32,
        key: key.as_ptr() as u64,
        value: value.as_mut_ptr() as u64,
        ..Element::default()
    };
    // SAFETY: `element` is the layout of bpf_attr for this command, the key has the map's key size,
    // and the value has room for the map's value size.
    unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut element) }?;
    Ok(value)
}

/// Writes the entry at `key`. A value that is too short is filled up with zeros; what is too long is
/// cut off.
///
/// # Panics
/// The key has not the map's key size.
pub(super) fn write_entry(map: &MapData, key: &[u8], mut value: Vec<u8>) -> io::Result<()> {
    let (key_size, value_size) = sizes(map)?;
    assert_eq!(key.len(), key_size);
    value.resize(value_size, 0);
    let mut element = Element {
        descriptor: map.fd().as_fd().as_raw_fd() as u32,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        ..Element::default()
    };
    // SAFETY: as for reading.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut element) }?;
    Ok(())
}

/// Every key of a map that nobody changes meanwhile.
pub(super) fn keys(map: &MapData) -> io::Result<Vec<Vec<u8>>> {
    let (key_size, _) = sizes(map)?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut next = vec![0_u8; key_size];
        let mut element = Element {
            descriptor: map.fd().as_fd().as_raw_fd() as u32,
            key: keys.last().map_or(0, |key| key.as_ptr() as u64),
            value: next.as_mut_ptr() as u64,
            ..Element::default()
        };
        // SAFETY: `element` is the layout of bpf_attr for this command; the key is none or has the
        // map's key size, for which the next key has room.
        match unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut element) } {
            Ok(_) => keys.push(next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
            Err(error) => return Err(error),
        }
    }
}

#[derive(Default)]
#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    descriptor: u32,
    element_flags: u64,
    flags: u64,
}

/// Entries that are read at once, to begin with. A bucket of a hash must fit.
const BATCH: usize = 512;

/// Hands every entry of a hash to `each`: its key, and `value_size` bytes of values. What changes
/// meanwhile may be missed; reading ends all the same, unlike going from key to key.
pub(super) fn read_entries(
    map: &MapData,
    value_size: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> io::Result<()> {
    let (key_size, _) = sizes(map)?;
    let (mut from, mut to) = (0_u32, 0_u32);
    let mut room = BATCH;
    let mut is_first = true;
    loop {
        let (mut keys, mut values) = (vec![0_u8; room * key_size], vec![0_u8; room * value_size]);
        let mut batch = Batch {
            from: if is_first { 0 } else { &raw mut from as u64 },
            to: &raw mut to as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: room as u32,
            descriptor: map.fd().as_fd().as_raw_fd() as u32,
            ..Batch::default()
        };
        // SAFETY: `batch` is the layout of bpf_attr for this command; keys and values have room for
        // `count` of the map's, and a place in a hash is a number of four bytes.
        let result = unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut batch) };
        let is_last = match result {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            // Not even one bucket fits.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                room *= 2;
                continue;
            }
            Err(error) => return Err(error),
        };
        let keys = keys.chunks_exact(key_size);
        let values = values.chunks_exact(value_size);
        for (key, value) in keys.zip(values).take(batch.count as usize) {
            each(key, value);
        }
        if is_last {
            return Ok(());
        }
        (from, is_first) = (to, false);
    }
}

fn sizes(map: &MapData) -> io::Result<(usize, usize)> {
    let info = map.info().map_err(io::Error::other)?;
    Ok((info.key_size() as usize, info.value_size() as usize))
}
