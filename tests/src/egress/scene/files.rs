//! The files of the control channel, as an administrator makes them.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{Cluster, Node, bin_dir, run};

/// The names in certificates that are shared.
pub(super) const AGENTS: &str = "agents";
pub(super) const CONTROLLERS: &str = "controllers";

/// An authority, and certificates for the controller and for every node.
pub(super) fn make_certificates(cluster: &Cluster) -> Result<()> {
    keygen(cluster, &["--ca"])?;
    keygen(cluster, &["--cert", "controller"])?;
    let mut names = cluster.nodes().iter().map(Node::name);
    names.try_for_each(|name| keygen(cluster, &["--cert", "node", &name]))
}

/// An authority, one certificate for all agents and one for controllers; and no node has a key.
pub(super) fn share(cluster: &Cluster) -> Result<()> {
    keygen(cluster, &["--ca"])?;
    keygen(cluster, &["--cert", "name", AGENTS])?;
    keygen(cluster, &["--cert", "name", CONTROLLERS])?;
    for node in cluster.nodes() {
        fs::remove_file(node.key_file()).context("remove a node's key")?;
    }
    Ok(())
}

fn keygen(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(bin_dir()?.join("pulsepath-controller"));
    command.args(["keygen", "--dir"]).arg(cluster.files());
    run(command.args(arguments)).map(drop)
}

/// As [`control`], with one of the shared certificates.
pub(super) fn shared_control(cluster: &Cluster, own: &str) -> String {
    let peer = match own {
        AGENTS => format!("control.controller_name = {CONTROLLERS:?}"),
        _ => format!("control.agent_name = {AGENTS:?}"),
    };
    control(cluster, own) + &peer + "\n"
}

/// Settings of either end of the control channel.
pub(super) fn control(cluster: &Cluster, name: &str) -> String {
    let mut settings = String::new();
    for (key, file) in [
        ("ca", "ca.crt".to_owned()),
        ("cert", format!("{name}.crt")),
        ("key", format!("{name}-tls.key")),
    ] {
        let file = cluster.files().join(file);
        // Writing to a string cannot fail.
        let _ = writeln!(settings, "control.{key}_file = {file:?}");
    }
    settings
}
