//! Devices of several kinds, and those that come and go.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use probe_ebpf::fence::FenceOutcome;
use probe_user::kernel::TcSetting;

use crate::scene::{OWN, Scene};

const LIMIT: Duration = Duration::from_secs(60);
/// ARPHRD_NONE and ARPHRD_INFINIBAND of `linux/if_arp.h`.
const NO_HEADER: u16 = 65534;
const INFINIBAND: u16 = 32;

/// Sends a datagram from [`OWN`].
fn send(scene: &Scene, to: Ipv4Addr) {
    let send = || {
        let socket = UdpSocket::bind((OWN, 0)).unwrap();
        // What the fence drops, the sender is told of.
        let _ = socket.send_to(&[0; 40], (to, 9));
    };
    scene.netns().enter(send).unwrap();
}

#[test]
fn a_device_without_ethernet_is_fenced() {
    let scene = Scene::new("tun", LIMIT);
    scene
        .netns()
        .ip_batch(
            "tuntap add dev tun0 mode tun\n\
         link set tun0 up\n\
         route add 10.50.0.0/24 dev tun0\n",
        )
        .unwrap();
    let mut kernel = scene.kernel();
    let fenced = scene.put_on(&mut kernel, "tun0", NO_HEADER, TcSetting::Auto);
    fenced.unwrap();
    let before = scene.counted(FenceOutcome::NoLeaseIpv4);
    send(&scene, Ipv4Addr::new(10, 50, 0, 1));
    assert_eq!(scene.counted(FenceOutcome::NoLeaseIpv4), before + 1);
    assert_eq!(scene.status().len(), 2, "eth0 is still fenced");
}

#[test]
fn a_device_that_the_fence_cannot_look_into_is_told() {
    let scene = Scene::unfenced("infiniband");
    let mut kernel = scene.kernel();
    let refused = scene.put_on(&mut kernel, "eth0", INFINIBAND, TcSetting::Auto);
    assert!(refused.unwrap_err().reason.contains("type 32"));
    assert_eq!(scene.status(), []);
}

#[test]
fn a_device_that_came_back_is_fenced_again() {
    let scene = Scene::new("again", LIMIT);
    let netns = scene.netns();
    netns
        .ip("link add up2 type veth peer name up2peer")
        .unwrap();
    let mut kernel = scene.kernel();
    let first = scene.put(&mut kernel, "up2", TcSetting::Auto).unwrap();
    assert_eq!(scene.status().len(), 2);
    netns.ip("link delete up2").unwrap();
    assert_eq!(scene.status().len(), 1, "it took its fence along");
    netns
        .ip("link add up2 type veth peer name up2peer")
        .unwrap();
    let second = scene.put(&mut kernel, "up2", TcSetting::Auto).unwrap();
    assert_ne!(first.interface_index, second.interface_index);
    assert_eq!(scene.status().len(), 2);
}

#[test]
fn a_device_that_is_no_uplink_any_more_loses_its_fence() {
    let scene = Scene::new("others", LIMIT);
    scene
        .netns()
        .ip("link add up2 type veth peer name up2peer")
        .unwrap();
    let mut kernel = scene.kernel();
    scene.put(&mut kernel, "up2", TcSetting::Clsact).unwrap();
    let eth0 = scene.index("eth0");
    let unfence = || kernel.unfence_others(&[eth0]);
    let removed = scene.netns().enter(unfence).unwrap().unwrap();
    assert_eq!(removed.len(), 1);
    let devices: Vec<_> = scene
        .status()
        .into_iter()
        .map(|it| it.unwrap().device)
        .collect();
    assert_eq!(devices, ["eth0"]);
    assert!(!scene.answers(OWN));
}

#[test]
fn detaching_removes_the_fence() {
    for setting in [TcSetting::Tcx, TcSetting::Clsact] {
        let scene = Scene::new("detach", LIMIT);
        let mut kernel = scene.kernel();
        scene.put(&mut kernel, "eth0", setting).unwrap();
        drop(kernel);
        assert!(!scene.answers(OWN));
        let state = scene.node().agent_state_file();
        let said = scene.agent(&["detach", "--state-file", state.to_str().unwrap()]);
        assert!(said.contains("fence"), "{said}");
        assert!(!scene.node().pin_dir().exists());
        assert!(scene.answers(OWN));
    }
}

#[test]
fn inspect_shows_lease_guards_and_fence() {
    let scene = Scene::new("inspect", LIMIT);
    let state = scene.node().agent_state_file();
    let state = state.to_str().unwrap();
    let report = || -> serde_json::Value {
        let said = scene.agent(&["inspect", "--state-file", state, "-o", "json"]);
        serde_json::from_str(&said).unwrap()
    };
    assert_eq!(report()["lease"]["held"], false);
    crate::keeper::Keeper::new(&scene).renew(60_000);
    send(&scene, crate::scene::NETWORK);
    let after = report();
    assert_eq!(after["lease"]["held"], true);
    assert_eq!(after["lease"]["limit_ms"], 60_000);
    assert_eq!(after["fence"]["guards"][OWN.to_string()], "own");
    assert_eq!(after["fence"]["devices"][0]["state"], "fenced");
    assert_eq!(after["fence"]["devices"][0]["device"], "eth0");
    let counters = after["fence"]["counters"].as_array().unwrap();
    let passed = counters.iter().find(|it| it["outcome"] == "passed_ipv4");
    assert!(passed.unwrap()["packets"].as_u64().unwrap() > 0);
    let said = scene.agent(&["inspect", "--state-file", state]);
    for expected in [
        "held for another",
        "limit 60000 ms",
        "eth0             TCX egress",
        "shut",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
