//! OVN-Kubernetes' own end-to-end sequences, with real nodes, whose leases witnesses extend.

use pulsepath_tests::eventually;

use crate::world::{PATIENCE, SETTINGS, World};

const ADDRESS: &str = "10.77.0.100";

#[test]
fn one_address_follows_the_nodes_that_are_available() {
    let mut world = World::with_witnesses("sequence", "egress_ips = ['10.77.0.100']", SETTINGS);
    world.await_assigned(1);
    if world.addresses()[0].owner.as_deref() == Some("n2") {
        // Which node is first is a matter of hashing; the sequence begins with n1.
        world.cut(2);
        world.await_owner(Some(1));
        world.heal(2);
    }
    world.await_owner(Some(1));
    assert!(world.holds(1, ADDRESS));
    world.cut(1);
    world.await_owner(Some(2));
    assert!(world.holds(2, ADDRESS));
    world.cut(2);
    world.await_owner(None);
    world.heal(1);
    world.await_owner(Some(1));
    world.heal(2);
    eventually(PATIENCE, || !world.holds(2, ADDRESS));
    world.await_owner(Some(1));
    world.post("/v1/nodes/n1/drain");
    world.await_owner(Some(2));
    assert!(!world.holds(1, ADDRESS));
    world.cut(1);
    world.select(2, false);
    world.await_owner(None);
    world.post("/v1/nodes/n1/undrain");
    world.await_owner(None);
    assert!(world.explain(ADDRESS).contains("n1 is UNREACHABLE"));
    world.heal(1);
    world.await_owner(Some(1));
    assert!(world.holds(1, ADDRESS));
    assert!(!world.holds(2, ADDRESS));
}

#[test]
fn two_addresses_with_one_on_each_node_are_assigned_as_nodes_fail_and_return() {
    let gateway = "egress_ips = ['10.77.0.100', '10.77.0.101']\nmax_per_node = 1";
    let world = World::with_witnesses("pair", gateway, SETTINGS);
    world.await_assigned(2);
    world.cut(1);
    world.await_assigned(1);
    world.cut(2);
    world.await_assigned(0);
    world.heal(1);
    world.await_assigned(1);
}

#[test]
fn owners_moves_and_steps_are_metrics() {
    let world = World::new("metrics", 2, "egress_ips = ['10.77.0.100']");
    world.await_assigned(1);
    let first = world.addresses()[0].owner.as_deref() == Some("n1");
    let owner = if first { 1 } else { 2 };
    world.await_owner(Some(owner));
    world.cut(owner);
    world.await_owner(Some(3 - owner));
    let metrics = world.metrics();
    let now = format!(r#"{{gateway="gw",ip="{ADDRESS}",node="n{}"}} 1"#, 3 - owner);
    for line in [
        format!("pulsepath_egress_ip_owner{now}"),
        r#"pulsepath_failovers_total{gateway="gw",reason="Unreachable"} 1"#.to_owned(),
        r#"pulsepath_failover_seconds_count{phase="place"} 2"#.to_owned(),
        "pulsepath_failover_held 0".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}
