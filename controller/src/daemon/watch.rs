//! Notices that a file was changed, replaced or repointed.
//!
//! Files are looked at now and then rather than through inotify: that sees atomic renames, the
//! symbolic links that Kubernetes swaps, and network file systems alike.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What tells one content of a file from another without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStamp(Option<Identity>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The file that `path` leads to now, through symbolic links.
    pub(crate) fn of(path: &Path) -> Self {
        let identity = fs::metadata(path).ok().map(|metadata| Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        });
        Self(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_untouched_file_keeps_its_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        assert_eq!(FileStamp::of(&path), FileStamp::of(&path));
    }

    #[test]
    fn a_file_written_in_place_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        let before = FileStamp::of(&path);
        fs::write(&path, "three").unwrap();
        assert_ne!(FileStamp::of(&path), before);
    }

    #[test]
    fn a_file_renamed_over_it_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["file", "other"].map(|name| directory.path().join(name));
        fs::write(&path, "one").unwrap();
        fs::write(&other, "two").unwrap();
        let before = FileStamp::of(&path);
        fs::rename(&other, &path).unwrap();
        assert_ne!(FileStamp::of(&path), before);
    }

    #[test]
    fn a_symbolic_link_to_a_directory_that_is_swapped_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("file"), version).unwrap();
        }
        symlink("v1", at("data")).unwrap();
        symlink("data/file", at("file")).unwrap();
        let before = FileStamp::of(&at("file"));
        symlink("v2", at("new")).unwrap();
        fs::rename(at("new"), at("data")).unwrap();
        assert_ne!(FileStamp::of(&at("file")), before);
    }

    #[test]
    fn a_file_that_goes_and_comes_back_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        let before = FileStamp::of(&path);
        fs::remove_file(&path).unwrap();
        assert_ne!(FileStamp::of(&path), before);
    }
}
