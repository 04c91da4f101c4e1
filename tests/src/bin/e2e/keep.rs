//! A cluster that goes on, for a look around.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use pulsepath_tests::egress::EGRESS_IP;
use pulsepath_tests::kubernetes::{Installation, RELEASE, kubectl_path};

/// Says how to use kubectl with what runs.
pub(crate) fn invite(installation: &Installation) {
    let (plane, cluster) = (installation.site().plane(), installation.site().cluster());
    let hub = format!("nsenter --net={}", cluster.hub().path().display());
    let kubectl = format!(
        "{hub} {} --kubeconfig={}",
        kubectl_path().display(),
        plane.kubeconfig().display()
    );
    println!("Everything goes on running. To look around (as root, in another terminal):\n");
    println!("alias k='{kubectl}'");
    for command in [
        "get nodes,pods --all-namespaces --output=wide".to_owned(),
        "get egw,nh --output=wide".to_owned(),
        "describe egw gw".to_owned(),
        "get events".to_owned(),
        format!("logs --namespace={RELEASE} deployment/pulsepath-controller"),
        format!("exec --namespace={RELEASE} daemonset/pulsepath-agent -- /pulsepath-agent inspect"),
    ] {
        println!("k {command}");
    }
    println!(
        "\n# cut n1 off, and mend it (what {EGRESS_IP} does: k get egw gw --output=wide --watch)"
    );
    let outside = format!(
        "nsenter --net={}",
        installation.site().external().outside().path().display()
    );
    for state in ["down", "up"] {
        println!("{hub} ip link set n1 {state}; {outside} ip link set n1 {state}");
    }
    println!("\nCtrl-C ends it and removes everything.");
}

/// Waits for Ctrl-C.
pub(crate) fn wait(interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(100));
    }
}
