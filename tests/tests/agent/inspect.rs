//! What the maps show to people.

use std::net::UdpSocket;

use pulsepath_tests::{Node, eventually};

use crate::bpf::{dump, pins};
use crate::subject::{SOON, agent, inspect, one_node, prober, start, wait_for_answer};

#[test]
fn bpftool_prints_names_of_fields_and_states() {
    let cluster = one_node("bpftool");
    let node = cluster.node(1);
    let _agent = start(node, "");
    let value = |map: &str| dump(&pins(node).join(map))[0]["formatted"]["value"].clone();
    let beat = eventually(SOON, || {
        Some(value("AGENT_BEAT")).filter(|beat| beat["last_ns"] != 0)
    });
    assert_eq!(
        (&beat["state"], &beat["checks"]),
        (&"Running".into(), &"None".into())
    );
    let config = value("PROBE_CONFIG");
    assert_eq!(
        (&config["probe_port"], &config["plain_stamp"]),
        (&862.into(), &"Off".into())
    );
    assert_eq!(value("PROBE_KEYS")["state"], "Valid");
    wait_for_answer(&mut prober(&cluster));
    let probers = dump(&pins(node).join("PROBERS"));
    assert_eq!(probers[0]["formatted"]["value"]["probes"], 1);
}

#[test]
fn inspect_tells_people_what_the_maps_say() {
    let cluster = one_node("inspect");
    let node = cluster.node(1);
    let mut running = start(node, "");
    wait_for_answer(&mut prober(&cluster));
    let text = agent(node, &["inspect"]).unwrap();
    for part in [
        "addresses    10.77.0.1, fd77::1, port 862",
        "agent        up, last beat",
        "answered",
        "keys         1",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    running.kill().unwrap();
    let text = eventually(SOON, || {
        agent(node, &["inspect"])
            .ok()
            .filter(|text| text.contains("DOWN"))
    });
    assert!(text.contains("probers see it as down"), "{text}");
}

#[test]
fn inspect_lists_the_probers() {
    let cluster = one_node("probers");
    let node = cluster.node(1);
    let _agent = start(node, "");
    wait_for_answer(&mut prober(&cluster));
    let report = inspect(node);
    assert_eq!(report["probers"][0]["address"], "10.77.0.254");
    assert_eq!(
        report["counters"][0]["packets"]
            .as_u64()
            .map(|packets| packets > 0),
        Some(true)
    );
}

#[test]
fn inspect_without_pins_says_so() {
    let cluster = one_node("nothing");
    let refused = agent(cluster.node(1), &["inspect"])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("nothing is pinned"), "{refused}");
}

#[test]
fn a_dropped_probe_is_logged_by_the_kernel_where_that_is_on() {
    for (level, logged) in [("debug", true), ("off", false)] {
        let cluster = one_node("log");
        let node = cluster.node(1);
        let settings = format!(
            "log.kernel = '{level}'\nstamp = {{ enabled = true, sources = ['10.77.0.0/24'] }}"
        );
        let agent = start(node, &settings);
        let socket = cluster
            .hub()
            .enter(|| UdpSocket::bind("0.0.0.0:0"))
            .unwrap()
            .unwrap();
        socket.send_to(b"short", (node.ipv4(), 862)).unwrap();
        eventually(SOON, || counted(node, "short_stamp") > 0);
        let line = || {
            agent
                .log()
                .contains("DEBUG pulsepath_ebpf::kernel: dropped: short_stamp")
        };
        if logged {
            eventually(SOON, line);
        } else {
            assert!(!line(), "{}", agent.log());
        }
    }
}

fn counted(node: &Node, outcome: &str) -> u64 {
    let report = inspect(node);
    let counters = report["counters"].as_array().unwrap();
    let counter = counters
        .iter()
        .find(|counter| counter["outcome"] == outcome)
        .unwrap();
    counter["packets"].as_u64().unwrap()
}
