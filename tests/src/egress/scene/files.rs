//! The files of the control channel, as an administrator makes them.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use crate::{Cluster, bin_dir, run};

/// An authority, and certificates for the controller and for every node.
pub(super) fn make_certificates(cluster: &Cluster) -> Result<()> {
    let program = bin_dir()?.join("pulsepath-controller");
    let keygen = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["keygen", "--dir"]).arg(cluster.files());
        run(command.args(arguments)).map(drop)
    };
    keygen(&["--ca"])?;
    keygen(&["--cert", "controller"])?;
    (cluster.nodes().iter()).try_for_each(|node| keygen(&["--cert", "node", &node.name()]))
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
