//! A demo that goes on, for a look around; and the end of one from outside.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pulsepath_tests::node::{AGENT_HTTP, CONTROLLER_HTTP};
use pulsepath_tests::{bin_dir, leftovers, within};

use crate::scene::{AGENT, Scene};

/// This program's name as the kernel keeps it: at most 15 bytes.
const COMMAND: &str = "pulsepath-demo";
/// How long a demo may take to clean up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says what to try while everything runs.
pub(crate) fn invite(scene: &Scene) -> Result<()> {
    let bin = bin_dir()?;
    let bin = bin.display();
    let node = scene.node(AGENT);
    let inside = format!("nsenter --net={}", node.netns().path().display());
    let controller = format!(
        "nsenter --net={}",
        scene.controller_node().netns().path().display()
    );
    let hub = format!("nsenter --net={}", scene.cluster().hub().path().display());
    let (pins, key, address) = (node.pin_dir().display(), node.key_file(), node.ipv4());
    println!(
        "\nEverything goes on running. To look around (as root, in another terminal):\n\n\
         # what the kernel of n2 knows\n\
         bpftool map dump pinned {pins}/v1/AGENT_BEAT\n\
         bpftool map dump pinned {pins}/v1/PROBERS\n\
         {inside} {bin}/pulsepath-agent inspect --pin-dir {pins}\n\
         # what its agent says\n\
         {inside} curl -s http://127.0.0.1:{AGENT_HTTP}/metrics\n\
         # a probe from the hub, like ping\n\
         {hub} {bin}/pulsepath ping {address} --key {} -c 5\n\
         # what the controller sees, now and as it changes\n\
         {controller} {bin}/pulsepath status\n\
         {controller} {bin}/pulsepath watch\n\
         {controller} curl -s http://127.0.0.1:{CONTROLLER_HTTP}/v1/nodes\n\
         # cut the link of n2, and mend it\n\
         {hub} ip link set n2 down\n\
         {hub} ip link set n2 up\n\n\
         Ctrl-C ends it and removes everything; so does `cargo xtask demo --clean`.",
        key.display()
    );
    Ok(())
}

/// Waits for Ctrl-C. What the visitor does to the daemons is the visitor's business.
pub(crate) fn wait(interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
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
