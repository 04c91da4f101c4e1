//! Who may read a secret's file.

#![forbid(unsafe_code)]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

const PERMISSIONS: u32 = 0o7777;
const GROUP_AND_OTHERS: u32 = 0o077;
const GROUP_READS: u32 = 0o040;
const ROOT: u32 = 0;

/// The permission bits of a file that too many can get at; `None`: it is well kept.
///
/// Nobody but the owner may. There is one exception: a process that is not root may read what root
/// lets its group read. It has no other way to a secret that root keeps for it, such as one in a
/// Kubernetes volume.
pub(crate) fn exposed(file: &Metadata) -> Option<u32> {
    let mode = file.mode() & PERMISSIONS;
    let granted = nix::unistd::geteuid().as_raw() != ROOT && file.uid() == ROOT;
    is_exposed(mode, granted).then_some(mode)
}

/// `granted`: root keeps it for whoever reads it.
const fn is_exposed(mode: u32, granted: bool) -> bool {
    let accepted = if granted { GROUP_READS } else { 0 };
    mode & GROUP_AND_OTHERS & !accepted != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_its_owner_may_get_at_a_secret() {
        assert!(!is_exposed(0o600, false) && !is_exposed(0o400, false));
        assert!(is_exposed(0o640, false) && is_exposed(0o604, false));
    }

    #[test]
    fn a_group_may_read_what_root_keeps_for_it_and_no_more() {
        assert!(!is_exposed(0o440, true));
        assert!(is_exposed(0o460, true) && is_exposed(0o450, true) && is_exposed(0o444, true));
    }
}
