//! A demo that goes on, for a look around; and the end of one from outside.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pulsepath_tests::egress::{EGRESS_IP, Scene};
use pulsepath_tests::node::{AGENT_HTTP, CONTROLLER_HTTP};
use pulsepath_tests::{Netns, bin_dir, leftovers, within};

use crate::scene::AGENT;
use crate::story::Story;

/// This program's name as the kernel keeps it: at most 15 bytes.
const COMMAND: &str = "pulsepath-demo";
/// How long a demo may take to clean up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something to try: what it is, and the commands.
type Visit = (&'static str, Vec<String>);

/// Says what to try while everything runs.
pub(crate) fn invite(scene: &Scene) -> Result<()> {
    let bin = bin_dir()?;
    println!("\nEverything goes on running. To look around (as root, in another terminal):");
    let visits = [node_visits(scene, &bin), egress_visits(scene, &bin)];
    for (what, commands) in visits.iter().flatten() {
        println!("\n# {what}\n{}", commands.join("\n"));
    }
    println!("\nCtrl-C ends it and removes everything; so does `cargo xtask demo --clean`.");
    Ok(())
}

fn node_visits(scene: &Scene, bin: &Path) -> Vec<Visit> {
    let node = scene.node(AGENT);
    let (inside, hub) = (inside(node.netns()), inside(scene.cluster().hub()));
    let (bin, pins, address) = (bin.display(), node.pin_dir().display(), node.ipv4());
    let key = node.key_file();
    vec![
        (
            "what the kernel of n2 knows",
            vec![
                format!("bpftool map dump pinned {pins}/v1/AGENT_BEAT"),
                format!("bpftool map dump pinned {pins}/v1/PROBERS"),
                format!(
                    "{inside} {bin}/pulsepath-agent inspect --pin-dir {pins} --state-file {}",
                    node.agent_state_file().display()
                ),
            ],
        ),
        (
            "what its agent says",
            vec![format!(
                "{inside} curl -s http://127.0.0.1:{AGENT_HTTP}/metrics"
            )],
        ),
        (
            "a probe from the hub, like ping",
            vec![format!(
                "{hub} {bin}/pulsepath ping {address} --key {} -c 5",
                key.display()
            )],
        ),
    ]
}

fn egress_visits(scene: &Scene, bin: &Path) -> Vec<Visit> {
    let controller = inside(scene.controller_node().netns());
    let pulsepath = format!("{controller} {}/pulsepath", bin.display());
    let (hub, outside) = (scene.cluster().hub(), scene.external().outside());
    let links = |state: &str| {
        let link = |netns| format!("{} ip link set n2 {state}", inside(netns));
        [hub, outside].map(link)
    };
    let (owner, pins) = (scene.node(AGENT), scene.node(AGENT).pin_dir().display());
    let owner = inside(owner.netns());
    vec![
        (
            "what the controller sees, now and as it changes",
            vec![
                format!("{pulsepath} status"),
                format!("{pulsepath} watch"),
                format!("{controller} curl -s http://127.0.0.1:{CONTROLLER_HTTP}/v1/gateways"),
            ],
        ),
        (
            "why the egress IP is where it is",
            vec![format!("{pulsepath} explain {EGRESS_IP}")],
        ),
        (
            "what its owner, n2, has for it",
            vec![
                format!("{owner} ip address show dev ext0"),
                format!("{owner} nft list ruleset"),
                format!("bpftool map dump pinned {pins}/v1/ASSIGNMENT"),
            ],
        ),
        (
            "move it on purpose, and let n2 own it again (what the client notices shows up here)",
            vec![
                format!("{pulsepath} drain n2"),
                format!("{pulsepath} undrain n2"),
            ],
        ),
        (
            "cut n2 off, and heal it (`explain n2` then says that it falls too often)",
            links("down").into_iter().chain(links("up")).collect(),
        ),
    ]
}

fn inside(netns: &Netns) -> String {
    format!("nsenter --net={}", netns.path().display())
}

/// Waits for Ctrl-C, and goes on telling what happens.
pub(crate) fn wait(story: &mut Story, interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
        // What the visitor does to the daemons is the visitor's business.
        let _ = story.observe();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asks every demo that runs on this machine to end, and waits until it has.
pub(crate) fn end_others() -> Result<()> {
    for maker in leftovers::makers() {
        let proc = Path::new("/proc").join(maker.to_string());
        let is_demo =
            fs::read_to_string(proc.join("comm")).is_ok_and(|comm| comm.trim() == COMMAND);
        if !is_demo {
            continue;
        }
        println!("ending the demo with process id {maker}");
        // It may have ended by itself just now.
        let _ = kill(Pid::from_raw(i32::try_from(maker)?), Signal::SIGTERM);
        within(PATIENCE, || !proc.exists())
            .map_err(|_| anyhow!("the demo with process id {maker} does not end"))?;
    }
    Ok(())
}
