//! The kernel programs. On any other target this is a stub, so that the whole workspace builds
//! and is checked with stable Rust.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod kernel;

#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("these are kernel programs: build them with `cargo xtask build`");
    std::process::exit(1);
}
