use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(directory: &TempDir, content: &str, mode: u32) -> PathBuf {
    let path = directory.path().join("key");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn counting() -> ClusterKeys {
    let secret = core::array::from_fn(|index| index as u8);
    ClusterKeys {
        keys: vec![ClusterKey { id: 7, secret }],
    }
}

fn line(id: u16, digit: &str) -> String {
    format!("{CLUSTER_LABEL}:{id}:{}\n", digit.repeat(64))
}

/// Expected values computed with Python's `cryptography` 48.0.0:
/// `HKDF(SHA256(), length=16, salt=None, info=b"pulsepath node key v1\0" + node).derive(secret)`,
/// and again with `hmac` and `hashlib` alone: extract with 32 zero bytes, expand with one block.
#[test]
fn node_keys_are_derived_as_an_independent_hkdf_derives_them() {
    let key = counting().node_keys("n1");
    assert_eq!(
        file::to_hex(&key.current().bytes()),
        "14c1f077a45ae0aff1af918ea1c830c2"
    );
    assert_eq!(key.current().id, 7);

    let all_ones = ClusterKeys {
        keys: vec![ClusterKey {
            id: 0,
            secret: [0xff; 32],
        }],
    };
    let key = all_ones.node_keys("straße-7");
    assert_eq!(
        file::to_hex(&key.current().bytes()),
        "036ef279d667006a6756b21777d002d5"
    );
}

#[test]
fn keys_of_different_nodes_differ() {
    let cluster = ClusterKeys::generate(1).unwrap();
    let (one, two) = (cluster.node_keys("n1"), cluster.node_keys("n2"));
    assert_ne!(one.current().bytes(), two.current().bytes());
}

#[test]
fn generated_keys_differ() {
    assert_ne!(
        ClusterKeys::generate(1).unwrap(),
        ClusterKeys::generate(1).unwrap()
    );
}

#[test]
fn a_written_cluster_key_reads_back_and_is_its_owners_alone() {
    let directory = directory();
    let path = directory.path().join("cluster.key");
    let keys = ClusterKeys::generate(65_535).unwrap();
    keys.write_new(&path).unwrap();
    assert_eq!(ClusterKeys::read(&path).unwrap(), keys);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
}

#[test]
fn a_written_node_key_reads_back_with_any_printable_name() {
    for name in ["n1", "node.example:9 ☂"] {
        let directory = directory();
        let path = directory.path().join("node.key");
        let keys = counting().node_keys(name);
        keys.write_new(&path).unwrap();
        assert_eq!(NodeKeys::read(&path).unwrap(), keys);
        assert_eq!(NodeKeys::read(&path).unwrap().node(), name);
    }
}

#[test]
fn a_node_name_that_breaks_the_line_is_refused() {
    for name in ["", "n1\npulsepath-node-key:n2:1:"] {
        let directory = directory();
        let path = directory.path().join("node.key");
        let error = counting().node_keys(name).write_new(&path).unwrap_err();
        assert!(matches!(error, KeyError::NodeName { .. }), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let directory = directory();
    let path = file(&directory, "precious", 0o600);
    let error = counting().write_new(&path).unwrap_err();
    assert!(matches!(error, KeyError::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_file_that_others_can_read_is_refused_with_the_remedy() {
    for mode in [0o640, 0o604, 0o620, 0o777] {
        let directory = directory();
        let path = file(&directory, &line(1, "a"), mode);
        let error = ClusterKeys::read(&path).unwrap_err().to_string();
        let remedy = format!("chmod 600 {}", path.display());
        assert!(
            error.contains(&remedy) && error.contains(&format!("{mode:04o}")),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_only_its_owner_can_read_is_accepted() {
    let directory = directory();
    assert!(ClusterKeys::read(file(&directory, &line(1, "a"), 0o400)).is_ok());
}

#[test]
fn the_first_line_signs_and_both_are_valid() {
    let directory = directory();
    let path = file(&directory, &(line(2, "a") + &line(1, "b")), 0o600);
    let keys = ClusterKeys::read(path).unwrap().node_keys("n1");
    assert_eq!(keys.current().id, 2);
    assert_eq!(
        keys.all().iter().map(|key| key.id).collect::<Vec<_>>(),
        [2, 1]
    );
}

#[test]
fn malformed_files_are_refused_with_the_reason() {
    let form = "pulsepath-cluster-key:<id>:<64 hex digits>";
    let bad_line = |line| MalformedKey::Line { line, form };
    let cases = [
        (String::new(), MalformedKey::Empty),
        ("\n".to_owned(), bad_line(1)),
        (line(1, "a") + "x", bad_line(2)),
        (line(1, "g"), bad_line(1)),
        (line(1, "a").replace(":1:", ":65536:"), bad_line(1)),
        (line(1, "a").replace("aa\n", "\n"), bad_line(1)),
        (line(1, "a").replace(":aa", ":+a"), bad_line(1)),
        (format!("{NODE_LABEL}:n1:1:{}", "a".repeat(32)), bad_line(1)),
        (line(1, "a") + &line(1, "b"), MalformedKey::SameId { id: 1 }),
        (
            line(1, "a") + &line(2, "b") + &line(3, "c"),
            MalformedKey::TooMany { lines: 3 },
        ),
    ];
    for (content, expected) in cases {
        let directory = directory();
        let path = file(&directory, &content, 0o600);
        match ClusterKeys::read(&path) {
            Err(KeyError::Malformed { reason, .. }) => assert_eq!(reason, expected, "{content:?}"),
            other => panic!("{content:?}: {other:?}"),
        }
    }
}

#[test]
fn a_file_with_keys_of_two_nodes_is_refused() {
    let directory = directory();
    let key = "a".repeat(32);
    let content = format!("{NODE_LABEL}:n1:1:{key}\n{NODE_LABEL}:n2:2:{key}\n");
    let error = NodeKeys::read(file(&directory, &content, 0o600)).unwrap_err();
    assert!(error.to_string().contains("\"n1\" and \"n2\""), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = NodeKeys::read("/nonexistent/node.key")
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nonexistent/node.key"), "{error}");
}

#[test]
fn no_debug_output_shows_a_secret() {
    let cluster = ClusterKeys {
        keys: vec![ClusterKey {
            id: 1,
            secret: [0xab; 32],
        }],
    };
    let node = NodeKeys {
        node: "n1".to_owned(),
        keys: vec![NodeKey {
            id: 1,
            secret: [0xab; 16],
        }],
    };
    let shown = format!("{cluster:?} {node:?} {:?}", node.current());
    assert!(!shown.contains("ab") && !shown.contains("171"), "{shown}");
}

#[test]
fn a_nodes_keys_are_replaced_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.key");
    let first = NodeKeys::new("n1", vec![NodeKey::new(1, [1; 16])]).unwrap();
    first.replace(&path).unwrap();
    let second = NodeKeys::new(
        "n1",
        vec![NodeKey::new(2, [2; 16]), NodeKey::new(1, [1; 16])],
    );
    let second = second.unwrap();
    second.replace(&path).unwrap();
    assert_eq!(NodeKeys::read(&path).unwrap(), second);
    let names = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 1, "something else was left behind");
}

#[test]
fn what_an_interrupted_replacement_left_does_not_stop_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.key");
    std::fs::write(directory.path().join("node.key.new"), "half a k").unwrap();
    let keys = NodeKeys::new("n1", vec![NodeKey::new(1, [1; 16])]).unwrap();
    keys.replace(&path).unwrap();
    assert_eq!(NodeKeys::read(&path).unwrap(), keys);
}

#[test]
fn keys_that_could_not_be_told_apart_are_refused() {
    let key = |id| NodeKey::new(id, [7; 16]);
    let refusal = |keys| NodeKeys::new("n1", keys).unwrap_err();
    assert_eq!(refusal(vec![]), MalformedKey::Empty);
    assert_eq!(
        refusal(vec![key(3), key(3)]),
        MalformedKey::SameId { id: 3 }
    );
    let many = vec![key(1), key(2), key(3)];
    assert_eq!(refusal(many), MalformedKey::TooMany { lines: 3 });
}

fn rotating() -> ClusterKeys {
    let mut keys = counting();
    keys.begin_rotation().unwrap();
    keys
}

#[test]
fn a_rotation_adds_a_key_and_takes_the_old_one_away_at_its_end() {
    let mut keys = rotating();
    assert_eq!(keys.ids(), [7, 8]);
    let next = keys.node_keys("n1").all()[1].clone();
    keys.finish_rotation().unwrap();
    assert_eq!(keys.node_keys("n1").all(), [next]);
}

#[test]
fn the_id_after_the_largest_is_the_smallest() {
    let mut keys = ClusterKeys::generate(u16::MAX).unwrap();
    keys.begin_rotation().unwrap();
    assert_eq!(keys.ids(), [u16::MAX, 0]);
}

#[test]
fn a_third_key_is_refused_with_the_two_that_are_there() {
    let mut keys = rotating();
    let error = keys.begin_rotation().unwrap_err().to_string();
    assert!(error.contains("from key 7 to key 8"), "{error}");
    assert_eq!(keys.ids(), [7, 8]);
}

#[test]
fn what_has_not_begun_is_not_finished() {
    let mut keys = counting();
    let error = keys.finish_rotation().unwrap_err().to_string();
    assert!(error.contains("key 7 is the only one"), "{error}");
    assert_eq!(keys.ids(), [7]);
}

#[test]
fn a_key_file_is_replaced_as_a_whole() {
    let directory = directory();
    let path = directory.path().join("cluster.key");
    counting().write_new(&path).unwrap();
    let keys = rotating();
    keys.replace(&path).unwrap();
    assert_eq!(ClusterKeys::read(&path).unwrap(), keys);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_next_key_signs_once_the_node_holds_it() {
    let keys = rotating().node_keys("n1");
    let signs = |held: &[NodeKey]| keys.signing_as_held(held).current().id;
    assert_eq!(signs(&[]), 7);
    assert_eq!(signs(&keys.all()[..1]), 7);
    assert_eq!(signs(keys.all()), 8);
    assert_eq!(signs(&keys.all()[1..]), 8);
    // A key is not known by its id alone.
    assert_eq!(signs(&[NodeKey::new(8, [0; 16])]), 7);
}

#[test]
fn whichever_key_signs_both_verify() {
    let keys = rotating().node_keys("n1");
    let mut ids: Vec<u16> = keys
        .signing_as_held(keys.all())
        .all()
        .iter()
        .map(|key| key.id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [7, 8]);
}
