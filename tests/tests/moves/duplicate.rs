//! Somebody else on the external segment has the egress IP already.

use std::time::Duration;

use controller::api::ReportState;
use pulsepath_tests::egress::{EGRESS_IP, PATIENCE, Scene, Setup};
use pulsepath_tests::eventually;
use serde_json::Value;

use crate::alone;

/// Far longer than an address counts as taken after its owner was last seen.
const SEEN_LONG_AGO: Duration = Duration::from_secs(60);

#[test]
fn an_address_that_somebody_has_is_not_taken_but_reported_until_it_is_free() {
    let _alone = alone();
    let mut scene = Scene::new("duplicate", Setup::default()).unwrap();
    let outside = scene.external().outside();
    let link: Value = serde_json::from_str(&outside.ip("-j link show br0").unwrap()).unwrap();
    let mac = link[0]["address"].as_str();
    outside
        .ip(&format!("address add {EGRESS_IP}/32 dev br0"))
        .unwrap();
    scene.start_agents().unwrap();
    scene.start_controller().unwrap();
    let owner = eventually(PATIENCE, || {
        let address = scene.address()?;
        let report = address.report.as_ref();
        let seen = report.filter(|it| it.state == ReportState::Duplicate);
        let mac_seen = seen.and_then(|it| it.duplicate_mac.as_deref());
        anyhow::ensure!(mac_seen == mac, "{address:?}");
        scene.owner()
    });
    assert!(!scene.holds(owner, &EGRESS_IP.to_string()).unwrap());
    let metric = format!("pulsepath_egress_ip_duplicate{{ip=\"{EGRESS_IP}\",mac=");
    let is_up = |scene: &Scene| {
        let metrics = scene.node(owner).agent_http("/metrics").unwrap().body;
        let line = metrics.lines().find(|line| line.starts_with(&metric));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value == Some(1.0)
    };
    assert!(is_up(&scene));

    let outside = scene.external().outside();
    outside
        .ip(&format!("address delete {EGRESS_IP}/32 dev br0"))
        .unwrap();
    eventually(SEEN_LONG_AGO, || {
        scene.holds(owner, &EGRESS_IP.to_string()).unwrap()
    });
    scene.await_owner(owner).unwrap();
    eventually(PATIENCE, || !is_up(&scene));
}
