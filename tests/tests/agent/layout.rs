//! Pins of other layout versions.

use std::fs;

use crate::bpf::{dump, names, pin_array, pins};
use crate::subject::{attachment, inspect, one_node, prober, start, start_in_vain};

#[test]
fn a_newer_layout_is_refused_and_left_alone() {
    let cluster = one_node("newer");
    let node = cluster.node(1);
    let newer = node.pin_dir().join("v7");
    fs::create_dir_all(&newer).unwrap();
    let said = start_in_vain(node, &node.agent_config(""));
    assert!(
        said.contains("holds layout version 7, this agent knows versions up to 1"),
        "{said}"
    );
    assert_eq!(names(node.pin_dir()), ["v7"]);
}

#[test]
fn an_older_layout_is_carried_over_without_losing_a_probe() {
    let cluster = one_node("older");
    let node = cluster.node(1);
    start(node, "").kill().unwrap();
    let before = inspect(node);
    let older = node.pin_dir().join("v0");
    fs::rename(pins(node), &older).unwrap();

    let stream = prober(&cluster).stream();
    let _agent = start(node, "");
    let after = inspect(node);
    stream.assert_nothing_lost(50);

    assert_eq!(before["node"], after["node"]);
    for interface in ["eth0", "lo"] {
        let link = |report| attachment(report, interface).unwrap()["link_id"].clone();
        assert_eq!(link(&before), link(&after), "{interface}");
    }
    assert_eq!(names(node.pin_dir()), ["v1"]);
}

#[test]
fn a_shorter_value_is_carried_over_and_filled_up() {
    let cluster = one_node("shorter");
    let node = cluster.node(1);
    start(node, "").kill().unwrap();
    let before = inspect(node);
    let older = node.pin_dir().join("v0");
    fs::rename(pins(node), &older).unwrap();
    // As a version that knew the incarnation only.
    fs::remove_file(older.join("ASSIGNMENT")).unwrap();
    let incarnation = before["node"]["incarnation"].as_str().unwrap();
    let incarnation = u64::from_str_radix(incarnation, 16).unwrap();
    pin_array(&older.join("ASSIGNMENT"), 8, &incarnation.to_ne_bytes());

    let _agent = start(node, "");
    let assignment = &dump(&pins(node).join("ASSIGNMENT"))[0]["formatted"]["value"];
    assert_eq!(assignment["incarnation"].as_u64(), Some(incarnation));
    assert_eq!(assignment["applied_epoch"].as_u64(), Some(0));
}

#[test]
fn a_migration_that_was_cut_short_is_finished_by_the_next_agent() {
    let cluster = one_node("cut");
    let node = cluster.node(1);
    start(node, "").kill().unwrap();
    let before = inspect(node);
    let older = node.pin_dir().join("v0");
    fs::rename(pins(node), &older).unwrap();
    // As if one link had been moved already, into a directory that has no maps yet.
    fs::create_dir(pins(node)).unwrap();
    fs::rename(older.join("link_2_xdp"), pins(node).join("link_2_xdp")).unwrap();

    let stream = prober(&cluster).stream();
    let _agent = start(node, "");
    stream.assert_nothing_lost(50);
    assert_eq!(before["node"], inspect(node)["node"]);
    assert_eq!(names(node.pin_dir()), ["v1"]);
}
