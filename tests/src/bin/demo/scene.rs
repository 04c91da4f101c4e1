//! Who plays: three nodes with an agent each, a controller on the first, and a client and a server
//! that only gateways connect.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pulsepath_tests::egress::{Scene, Setup};
use pulsepath_tests::{Node, run};

/// How many nodes there are.
pub(crate) const NODES: u8 = 3;
/// The node on which the controller lives.
pub(crate) const CONTROLLER: u8 = 1;
/// The node whose agent is killed and upgraded, and which is the first to own the egress IP.
pub(crate) const AGENT: u8 = 2;
/// The node whose link is cut, and which is the second to own the egress IP.
pub(crate) const LINK: u8 = 3;

/// The nodes and segments, without any process yet. Nobody is a gateway before the story says so.
pub(crate) fn new() -> Result<Scene> {
    let setup = Setup {
        nodes: NODES,
        candidates: Vec::new(),
        controller: CONTROLLER,
        settings: "profile = \"default\"".into(),
        ..Setup::default()
    };
    Scene::new("demo", setup)
}

/// An attachment: the link stays, the program behind it changes with an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// The name of the link's pin.
    pub(crate) pin: String,
    /// The kernel's id of the link.
    pub(crate) link: u64,
    /// The kernel's id of the program.
    pub(crate) program: u64,
}

impl Attachment {
    /// The attachments of `node`, ordered by pin, as `bpftool` sees them.
    pub(crate) fn all_of(node: &Node) -> Result<Vec<Self>> {
        let pins = node.pin_dir().join("v1");
        let entries = fs::read_dir(&pins).with_context(|| format!("read {}", pins.display()))?;
        let mut attachments = Vec::new();
        for entry in entries {
            let entry = entry?;
            let pin = entry.file_name().to_string_lossy().into_owned();
            if pin.starts_with("link_") {
                let mut bpftool = Command::new("bpftool");
                bpftool
                    .args(["--json", "link", "show", "pinned"])
                    .arg(entry.path());
                attachments.push(Self::parse(pin, &run(&mut bpftool)?)?);
            }
        }
        ensure!(
            !attachments.is_empty(),
            "no link is pinned in {}",
            pins.display()
        );
        attachments.sort_by(|a, b| a.pin.cmp(&b.pin));
        Ok(attachments)
    }

    /// Whether this is `old` with another program.
    pub(crate) fn replaces(&self, old: &Self) -> bool {
        self.pin == old.pin && self.link == old.link && self.program != old.program
    }

    fn parse(pin: String, json: &str) -> Result<Self> {
        let value: serde_json::Value = serde_json::from_str(json)?;
        // Of one link bpftool prints either the object or a list of it, depending on its version.
        let link = value.get(0).unwrap_or(&value);
        let number = |key: &str| {
            link[key]
                .as_u64()
                .with_context(|| format!("no {key}: {json}"))
        };
        Ok(Self {
            pin,
            link: number("id")?,
            program: number("prog_id")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_alone_or_in_a_list() {
        let expected = Attachment {
            pin: "link_2_xdp".into(),
            link: 7,
            program: 42,
        };
        let json = r#"{"id":7,"type":"xdp","prog_id":42}"#;
        for json in [json.to_owned(), format!("[{json}]")] {
            let parsed = Attachment::parse("link_2_xdp".into(), &json).unwrap();
            assert_eq!(parsed, expected);
        }
    }
}
