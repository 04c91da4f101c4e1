//! Removing what a killed run could not remove itself.
//!
//! The names say which process made a thing; a thing whose process is gone is a leftover. What a
//! living process uses is never touched, so several test binaries can run at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use crate::command::run;
use crate::unique;

/// The directory of all pin directories.
pub(crate) const BPFFS: &str = "/sys/fs/bpf";

/// Removes the namespaces, pins and files of runs that no longer live. A second call in the
/// same process does nothing.
pub fn sweep_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(sweep);
}

/// Removes the namespaces, pins and files of runs that no longer live.
pub fn sweep() {
    for name in leftovers(Path::new("/run/netns")) {
        // Two sweepers may meet here: whoever comes second finds nothing, and that is fine.
        let _ = run(Command::new("ip").args(["netns", "delete", &name]));
    }
    for parent in [PathBuf::from(BPFFS), std::env::temp_dir()] {
        for name in leftovers(&parent) {
            let _ = fs::remove_dir_all(parent.join(name));
        }
    }
}

/// The living processes whose namespaces exist.
pub fn makers() -> BTreeSet<u32> {
    let names = names(Path::new("/run/netns"));
    names
        .filter_map(|name| unique::maker(&name))
        .filter(|maker| lives(*maker))
        .collect()
}

fn leftovers(dir: &Path) -> Vec<String> {
    names(dir)
        .filter(|name| unique::maker(name).is_some_and(|maker| !lives(maker)))
        .collect()
}

/// The names in `dir`; none if it is not there.
fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn lives(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_made_is_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let dead = format!("{}-x-{}-0", unique::PREFIX, u32::MAX);
        let living = unique::name("x");
        for name in [&dead, &living, &"foreign-1-2".to_owned()] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(leftovers(dir.path()), [dead]);
    }
}
