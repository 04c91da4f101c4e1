//! bpftool, and the pins as files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulsepath_tests::{Netns, Node, run};
use serde_json::Value;

/// Runs bpftool inside a namespace; `arguments` are split at white space.
pub(crate) fn bpftool(netns: &Netns, arguments: &str) -> String {
    run(netns.command("bpftool").args(arguments.split_whitespace())).unwrap()
}

/// A map as bpftool prints it.
pub(crate) fn dump(pin: &Path) -> Value {
    let mut command = Command::new("bpftool");
    command
        .args(["--json", "--pretty", "map", "dump", "pinned"])
        .arg(pin);
    serde_json::from_str(&run(&mut command).unwrap()).unwrap()
}

/// The present layout's pins of a node.
pub(crate) fn pins(node: &Node) -> PathBuf {
    node.pin_dir().join("v1")
}

/// What is pinned in a directory, by name.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Makes an array map of one entry and pins it.
pub(crate) fn pin_array(path: &Path, value_size: usize, bytes: &[u8]) {
    let create = format!(
        "map create {} type array key 4 value {value_size} entries 1 name test",
        path.display()
    );
    run(Command::new("bpftool").args(create.split_whitespace())).unwrap();
    set_entry(path, bytes);
}

/// Writes the one entry of an array map.
pub(crate) fn set_entry(path: &Path, bytes: &[u8]) {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let update = format!(
        "map update pinned {} key hex 0 0 0 0 value hex {}",
        path.display(),
        hex.join(" ")
    );
    run(Command::new("bpftool").args(update.split_whitespace())).unwrap();
}
