//! Configurations that are refused, each by name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::world::World;

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
    assert_says(
        &world.refused_controller(&world.config()),
        &["0.0.0.0:9865", "http.listen"],
    );
}
