//! What the agent refuses at start, and how it says so.

use crate::bpf::names;
use crate::subject::{one_node, start_in_vain};

#[test]
fn a_pin_directory_outside_a_bpf_file_system_is_refused_with_the_remedy() {
    let cluster = one_node("bpffs");
    let node = cluster.node(1);
    let elsewhere = cluster.files().join("pins");
    let config = node.agent_config("").replace(
        node.pin_dir().to_str().unwrap(),
        elsewhere.to_str().unwrap(),
    );
    let said = start_in_vain(node, &config);
    assert!(said.contains("is not on a BPF file system"), "{said}");
    assert!(said.contains("mount -t bpf bpf /sys/fs/bpf"), "{said}");
    assert!(!elsewhere.exists());
}

#[test]
fn another_nodes_key_is_refused() {
    let cluster = one_node("key");
    let node = cluster.node(1);
    let config = node
        .agent_config("")
        .replace("node = \"n1\"", "node = \"n2\"");
    let said = start_in_vain(node, &config);
    assert!(
        said.contains("holds the key of node \"n1\", but this is node \"n2\""),
        "{said}"
    );
    assert!(names(cluster.pins()).is_empty());
}

#[test]
fn a_setting_out_of_range_is_named_before_anything_is_touched() {
    let cluster = one_node("setting");
    let node = cluster.node(1);
    let said = start_in_vain(node, &node.agent_config("beat.timeout = '150ms'"));
    assert!(
        said.contains("beat.timeout") && said.contains("200ms"),
        "{said}"
    );
    assert!(names(cluster.pins()).is_empty());
}
