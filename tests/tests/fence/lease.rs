//! What leaves follows the lease, with nothing of ours running.

use std::time::Duration;

use pulsepath_tests::{Netns, eventually, run};

use crate::keeper::Keeper;
use crate::scene::{OWN, SOON, STALE, Scene};
use crate::stream::Stream;

const LIMIT: Duration = Duration::from_secs(3);

/// A namespace behind the node, whose traffic leaves from [`OWN`].
fn pod(scene: &Scene) -> Netns {
    let pod = Netns::new("fence-pod").unwrap();
    let node = scene.netns();
    node.ip_batch(&format!(
        "link add pod type veth peer name eth0 netns {}\n\
         address add 10.99.0.1/24 dev pod\n\
         link set pod up\n",
        pod.name()
    ))
    .unwrap();
    pod.ip_batch(
        "address add 10.99.0.2/24 dev eth0\n\
         link set eth0 up\n\
         route add default via 10.99.0.1\n",
    )
    .unwrap();
    let forward = "net.ipv4.ip_forward=1";
    run(node.command("sysctl").args(["-q", "-w", forward])).unwrap();
    let table = format!(
        "table ip fence_test {{\n\
         chain post {{\n\
         type nat hook postrouting priority srcnat\n\
         ip saddr 10.99.0.0/24 snat to {OWN}\n\
         }}\n\
         }}\n"
    );
    run(node.command("nft").arg(table)).unwrap();
    pod
}

#[test]
fn nothing_leaves_before_there_ever_was_a_lease() {
    let scene = Scene::new("never", LIMIT);
    assert!(scene.answers(scene.node().ipv4()), "other addresses answer");
    assert!(!scene.is_resolved(OWN));
    let pod = pod(&scene);
    let stream = Stream::start(&scene, &pod, None);
    stream.wait_for_sent(200);
    assert!(stream.finish().1.is_empty());
}

#[test]
fn arp_ping_and_forwarded_traffic_end_with_the_lease_and_come_back_with_the_next() {
    let scene = Scene::new("lapse", LIMIT);
    let pod = pod(&scene);
    let stream = Stream::start(&scene, &pod, None);
    let keeping = Keeper::new(&scene).keep(3000);
    stream.wait_for(500);
    eventually(SOON, || scene.answers(OWN));
    assert!(
        !scene.is_resolved(STALE),
        "what belongs elsewhere stays shut"
    );

    drop(keeping);
    eventually(SOON, || !scene.is_resolved(OWN));
    let expires = scene.maps().lease().unwrap().expires_ns;
    assert!(!scene.answers(OWN));
    let lapses = scene
        .maps()
        .lease()
        .unwrap()
        .lapses(crate::stream::boot_now());
    assert_eq!(lapses, 1);
    stream.wait_for_sent(200);

    let keeping = Keeper::new(&scene).keep(3000);
    let resumed = scene.maps().lease().unwrap();
    stream.wait_for(200);
    eventually(SOON, || scene.answers(OWN));
    drop(keeping);
    assert_eq!(resumed.expiries, 1);
    let (sent, arrived) = stream.finish();
    // Stamped before it is sent: what is stamped within the lapse must not have left, save one whose
    // sender was held up between the two until the lease was renewed.
    let start = resumed.expires_ns - LIMIT.as_nanos() as u64;
    let within = arrived
        .iter()
        .filter(|at| (expires..start).contains(*at))
        .count();
    println!(
        "{sent} sent, {} arrived, {within} of the lapse",
        arrived.len()
    );
    assert!(within <= 1);
    assert!(arrived.iter().any(|at| *at < expires));
    assert!(arrived.iter().any(|at| *at > start));
}

#[test]
fn a_kept_lease_loses_nothing() {
    let scene = Scene::new("kept", Duration::from_secs(30));
    let _keeping = Keeper::new(&scene).keep(30_000);
    let stream = Stream::start(&scene, scene.netns(), Some(OWN));
    stream.wait_for(1000);
    let (sent, arrived) = stream.finish();
    assert_eq!(arrived.len() as u64, sent);
}
