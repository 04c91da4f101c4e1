//! Embeds the kernel programs' object, or an empty one where it has not been built, so that the
//! crate builds and is checked without a BPF toolchain; and generates the control channel's
//! messages, without `protoc`.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Names the object to embed; without it, that of the workspace's own build is taken.
const OBJECT_VARIABLE: &str = "PULSEPATH_BPF_OBJECT";
const BUILT_OBJECT: &str = "../target/bpf/pulsepath.o";

const AGENT_PROTO: &str = "proto/agent.proto";

fn main() {
    embed_object();
    generate_messages();
}

fn generate_messages() {
    println!("cargo::rerun-if-changed={AGENT_PROTO}");
    let files = protox::compile([AGENT_PROTO], ["proto"])
        .unwrap_or_else(|error| panic!("{AGENT_PROTO}: {error}"));
    tonic_prost_build::configure()
        // Holds a secret: the crate writes its own.
        .skip_debug(["pulsepath.agent.v1.ProbeKey"])
        .compile_fds(files)
        .unwrap_or_else(|error| panic!("{AGENT_PROTO}: {error}"));
}

fn embed_object() {
    println!("cargo::rerun-if-env-changed={OBJECT_VARIABLE}");
    let named = env::var_os(OBJECT_VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let object = match &named {
        Some(path) => {
            read(path).unwrap_or_else(|| panic!("{OBJECT_VARIABLE}: no file {}", path.display()))
        }
        None => read(&here().join(BUILT_OBJECT)).unwrap_or_default(),
    };
    let target = PathBuf::from(variable("OUT_DIR")).join("pulsepath.o");
    fs::write(&target, object).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
}

fn here() -> PathBuf {
    PathBuf::from(variable("CARGO_MANIFEST_DIR"))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    // A file that is missing now is watched, too: cargo looks again at the next build.
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read(path).ok()
}
