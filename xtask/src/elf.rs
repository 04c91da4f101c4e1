//! What a program needs beside itself.

use anyhow::{Context, Result, ensure};

const MAGIC: &[u8] = b"\x7fELF";
/// 64 bits, little endian.
const CLASS_AND_ORDER: [u8; 2] = [2, 1];
/// The program header that names the loader of libraries.
const PT_INTERP: u32 = 3;

/// Whether the program is one that a loader starts, since it loads libraries.
///
/// # Errors
/// It is no program for a 64-bit little-endian machine.
pub(crate) fn loads_libraries(program: &[u8]) -> Result<bool> {
    ensure!(
        program.starts_with(MAGIC) && program.get(4..6) == Some(&CLASS_AND_ORDER),
        "no ELF file for a 64-bit little-endian machine"
    );
    let table = usize::try_from(u64::from_le_bytes(bytes(program, 0x20)?))?;
    let size = usize::from(u16::from_le_bytes(bytes(program, 0x36)?));
    let count = usize::from(u16::from_le_bytes(bytes(program, 0x38)?));
    for index in 0..count {
        if u32::from_le_bytes(bytes(program, table + index * size)?) == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

fn bytes<const N: usize>(program: &[u8], at: usize) -> Result<[u8; N]> {
    let slice = program.get(at..at + N).context("an ELF file is cut off")?;
    Ok(slice.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, and a table of program headers of these kinds.
    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut program = vec![0; 64];
        program[..4].copy_from_slice(MAGIC);
        program[4..6].copy_from_slice(&CLASS_AND_ORDER);
        program[0x20] = 64;
        program[0x36] = 56;
        program[0x38] = kinds.len() as u8;
        for kind in kinds {
            program.extend(kind.to_le_bytes());
            program.extend([0; 52]);
        }
        program
    }

    #[test]
    fn a_program_with_a_loader_is_told_from_one_without() {
        assert!(!loads_libraries(&program(&[1, 6])).unwrap());
        assert!(loads_libraries(&program(&[6, PT_INTERP, 1])).unwrap());
    }

    #[test]
    fn what_is_no_program_or_cut_off_is_refused() {
        loads_libraries(b"#!/bin/sh").unwrap_err();
        let whole = program(&[1, PT_INTERP]);
        loads_libraries(&whole[..100]).unwrap_err();
    }
}
