//! Generates the health interface's messages, without `protoc`.

use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const PROTO: &str = "proto/health.proto";
/// What server reflection tells.
const DESCRIPTORS: &str = "health.binpb";

fn main() {
    println!("cargo::rerun-if-changed={PROTO}");
    // With its folder: reflection knows files by name, and `health.proto` is that of grpc.health.v1.
    let files = protox::compile([PROTO], ["."]).unwrap_or_else(|error| panic!("{PROTO}: {error}"));
    let out = env::var("OUT_DIR").unwrap_or_else(|error| panic!("OUT_DIR: {error}"));
    let descriptors = PathBuf::from(out).join(DESCRIPTORS);
    fs::write(&descriptors, files.encode_to_vec())
        .unwrap_or_else(|error| panic!("{}: {error}", descriptors.display()));
    tonic_prost_build::configure()
        .compile_fds(files)
        .unwrap_or_else(|error| panic!("{PROTO}: {error}"));
}
