//! Configurations that are refused, each by name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use probe_user::keys::{ClusterKeys, NodeKeys};

use crate::world::{PATIENCE, World};

fn assert_says(log: &str, parts: &[&str]) {
    for part in parts {
        assert!(log.contains(part), "{part:?} is not in:\n{log}");
    }
}

#[test]
fn a_configuration_that_contradicts_itself_or_the_ranges_is_refused_by_name() {
    let world = World::new("refused", 2);
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            "\"n2\"",
            "\"n1\"",
            &["`nodes[1].name` = n1", "must be unique"],
        ),
        (
            "10.77.0.2",
            "10.77.0.1",
            &["`nodes[1].addresses` = 10.77.0.1", "node n1"],
        ),
        ("10.77.0.2", "10.77.0.two", &["node n2", "\"10.77.0.two\""]),
        (
            "period = '50ms'",
            "period = '5ms'",
            &["`period` = 5ms", "between 10ms and 1m"],
        ),
        (
            "timeout = '500ms'",
            "timeout = '60ms'",
            &["`timeout` = 60ms", "twice the period"],
        ),
        ("period = '50ms'", "perod = '50ms'", &["`perod`"]),
    ];
    for (from, to, parts) in cases {
        assert_says(
            &world.refused_controller(&world.config().replace(from, to)),
            parts,
        );
    }
}

#[test]
fn a_cluster_key_that_others_may_read_is_refused() {
    let world = World::new("exposed", 1);
    let config = world.config();
    let line = config
        .lines()
        .find(|line| line.starts_with("cluster_key_file"))
        .unwrap();
    let path = line.split('"').nth(1).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_says(&world.refused_controller(&config), &[path, "0644"]);
}

#[test]
fn an_http_address_in_use_is_refused_by_name() {
    let mut world = World::new("inuse", 1);
    world.start_controller(&world.config());
    let other = format!("grpc.listen = \"0.0.0.0:9874\"\n{}", world.config());
    assert_says(
        &world.refused_controller(&other),
        &["0.0.0.0:9865", "http.listen"],
    );
}

#[test]
fn a_grpc_address_in_use_is_refused_by_name() {
    let mut world = World::new("inuse-grpc", 1);
    world.start_controller(&world.config());
    assert_says(
        &world.refused_controller(&world.config()),
        &["0.0.0.0:9864", "grpc.listen"],
    );
}

#[test]
fn keys_are_made_for_their_owner_only_and_never_over_others() {
    let world = World::new("keygen", 1);
    let file = |name: &str| world.cluster.files().join(name);
    let (cluster, node) = (file("new-cluster.key"), file("new-node.key"));
    let keygen = |arguments: &[&str]| {
        let arguments = ["keygen"].iter().chain(arguments);
        let mut process = world
            .cluster
            .node(1)
            .spawn("pulsepath-controller", arguments)
            .unwrap();
        process.wait(PATIENCE).unwrap().success()
    };
    let (cluster_path, node_path) = (cluster.to_str().unwrap(), node.to_str().unwrap());
    let derive = [
        "--node",
        "n1",
        "--cluster-key",
        cluster_path,
        "--out",
        node_path,
    ];
    assert!(keygen(&["--id", "7", "--out", cluster_path]));
    assert!(keygen(&derive));
    for path in [&cluster, &node] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let keys = NodeKeys::read(&node).unwrap();
    assert_eq!(keys, ClusterKeys::read(&cluster).unwrap().node_keys("n1"));
    assert_eq!(keys.current().id, 7);
    assert!(!keygen(&derive), "a key was written over another");
}
