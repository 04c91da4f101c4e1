//! `cargo xtask`.

#![forbid(unsafe_code)]

use anyhow::Result;

fn main() -> Result<()> {
    xtask::main()
}
