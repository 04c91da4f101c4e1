//! What a node of a cluster has beyond its network: containerd and a kubelet.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{ControlPlane, Keeper, programs};
use crate::{Node, Process};

/// Where control groups are, by hierarchy.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Where containerd keeps its containers, below a machine's directory. Each has groups of its name.
const CONTAINERS: &str = "run/containerd/io.containerd.runtime.v2.task/k8s.io";

const CONTAINERD: &str = include_str!("files/containerd.toml");
const KUBELET: &str = include_str!("files/kubelet.yaml");
const NETWORK: &str = include_str!("files/network.conflist");

/// A node's machine. Dropped, it is as if its power were cut: nothing of its memory, its kernel's
/// included, outlives it, but its files do until the cluster goes.
#[derive(Debug)]
pub struct Machine {
    process: Process,
    directory: PathBuf,
}

impl Machine {
    /// Starts the machine of `node`, with all images in the directory `images`. The kubelet registers
    /// the node under its name; that and the rest is not waited for.
    ///
    /// # Errors
    /// A program is missing, or a file cannot be written.
    pub fn start(
        node: &Node,
        plane: &ControlPlane,
        images: &Path,
        keeper: &Keeper,
    ) -> Result<Self> {
        let directory = node.directory("machine")?;
        write_files(node, plane, &directory)?;
        let script = directory.join("node.sh");
        let mut command = node.netns().command("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--", "sh"])
            .arg(script)
            .args([&directory, images])
            .args([programs::debian(), programs::bin()]);
        let log = directory.join("node.log");
        let process = keeper.spawn(&format!("machine of {}", node.name()), command, &log)?;
        Ok(Self { process, directory })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fails if the machine does not run.
    ///
    /// # Errors
    /// With what it wrote.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.process.exited() {
            None => Ok(()),
            Some(status) => Err(anyhow!("it ended: {status}\n{}", self.process.log())),
        }
    }

    /// The processes on it that run `program`, by their ids here.
    pub fn processes(&self, program: &str) -> Vec<u32> {
        // The kernel keeps 15 bytes of a name.
        let name: String = program.chars().take(15).collect();
        let all = processes();
        let is_ours = |id: u32| {
            let mut ancestors = iter::successors(Some(id), |id| Some(all.get(id)?.parent));
            ancestors.any(|ancestor| ancestor == self.process.id())
        };
        let named = all.iter().filter(|(_, process)| process.name == name);
        named.map(|(id, _)| *id).filter(|id| is_ours(*id)).collect()
    }

    /// Sends `signal` to the processes on it that run `program`, and says how many.
    ///
    /// # Errors
    /// An id is none.
    pub fn signal(&self, program: &str, signal: Signal) -> Result<usize> {
        let ids = self.processes(program);
        for id in &ids {
            // Who has just ended by itself needs none.
            let _ = kill(Pid::from_raw(i32::try_from(*id)?), signal);
        }
        Ok(ids.len())
    }

    /// What the containers called `container` have written, in no certain order of Pods.
    pub fn container_log(&self, container: &str) -> String {
        let pods = self.directory.join("log/pods");
        let mut text = String::new();
        for pod in children(&pods) {
            for log in children(&pod.join(container)) {
                text += &fs::read_to_string(log).unwrap_or_default();
            }
        }
        text
    }

    /// The last `lines` lines of the kubelet's log.
    pub fn kubelet_log(&self, lines: usize) -> String {
        let text = fs::read_to_string(self.directory.join("kubelet.log")).unwrap_or_default();
        let skip = text.lines().count().saturating_sub(lines);
        text.lines()
            .skip(skip)
            .fold(String::new(), |all, line| all + line + "\n")
    }

    /// A command in all of the machine's namespaces.
    ///
    /// # Errors
    /// It is only starting, or has ended.
    pub fn command(&self, program: &str) -> Result<Command> {
        let unshare = self.process.id();
        let children = format!("/proc/{unshare}/task/{unshare}/children");
        let children = fs::read_to_string(&children).with_context(|| format!("read {children}"))?;
        let first = children.split_whitespace().next();
        let first = first.context("the machine has no first process")?;
        let mut command = Command::new("nsenter");
        command
            .args(["--target", first, "--net", "--mount", "--pid", "--"])
            .arg(program);
        Ok(command)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // An error says that it has ended by itself.
        let _ = self.process.kill();
        // Whoever would have removed its containers' groups is dead, too.
        let containers = children(&self.directory.join(CONTAINERS));
        for hierarchy in children(Path::new(CGROUPS)) {
            let all = hierarchy.join("k8s.io");
            for container in containers.iter().filter_map(|path| path.file_name()) {
                let _ = fs::remove_dir(all.join(container));
            }
            let _ = fs::remove_dir(all);
        }
    }
}

/// A process of this machine.
struct Running {
    name: String,
    parent: u32,
}

/// All processes, by their ids. Who ends meanwhile is left out.
fn processes() -> BTreeMap<u32, Running> {
    let ids = children(Path::new("/proc")).into_iter();
    let ids = ids.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, running(id)?))).collect()
}

fn running(id: u32) -> Option<Running> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    Some(Running {
        name: field("Name:")?,
        parent: field("PPid:")?.parse().ok()?,
    })
}

/// What is in a directory; nothing if it is not there.
fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn write_files(node: &Node, plane: &ControlPlane, directory: &Path) -> Result<()> {
    let pods = format!("10.244.{}.0/24", node.index());
    let fill = |template: &str| {
        [
            ("@DIRECTORY@", directory.display().to_string()),
            ("@DEBIAN@", programs::debian().display().to_string()),
            ("@PODS@", pods.clone()),
            (
                "@AUTHORITY@",
                plane.client_authority().display().to_string(),
            ),
        ]
        .iter()
        .fold(template.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    };
    let network = directory.join("network");
    fs::create_dir_all(&network).with_context(|| format!("make {}", network.display()))?;
    let kubeconfig = plane.kubelet_access(&node.name())?;
    for (name, text) in [
        ("node.sh", include_str!("files/node.sh").to_owned()),
        ("name", node.name()),
        ("addresses", format!("{},{}", node.ipv4(), node.ipv6())),
        ("containerd.toml", fill(CONTAINERD)),
        ("kubelet.yaml", fill(KUBELET)),
        ("kubeconfig", fs::read_to_string(kubeconfig)?),
        ("network/pods.conflist", fill(NETWORK)),
    ] {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
