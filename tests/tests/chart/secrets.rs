//! The daemons accept the keys and certificates that the chart makes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probe_user::channel::{Credentials, TlsFiles};
use probe_user::keys::ClusterKeys;
use serde_json::Value;
use tempfile::TempDir;

use crate::helm::{Objects, render};

/// What a Secret holds under `key`.
fn secret(secret: &Value, key: &str) -> Vec<u8> {
    let text = secret["data"][key].as_str().unwrap();
    let mut decode = Command::new("base64");
    decode
        .arg("--decode")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = decode.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().stdout
}

/// Writes it as the kubelet would.
fn mount(directory: &Path, object: &Value, key: &str) -> PathBuf {
    let path = directory.join(key);
    fs::write(&path, secret(object, key)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    path
}

#[test]
fn a_cluster_key_is_made_that_controllers_accept() {
    let directory = TempDir::new().unwrap();
    let key = |objects: &Objects, name: &str| {
        let directory = directory.path().join(name);
        fs::create_dir(&directory).unwrap();
        let object = objects.get("Secret", "pulsepath-cluster-key");
        ClusterKeys::read(mount(&directory, object, "cluster.key")).unwrap()
    };
    let first = key(&render(&[]), "first");
    assert_eq!(first.ids(), [1]);
    assert!(first != key(&render(&[]), "second"), "a constant is no key");
}

#[test]
fn certificates_are_made_with_which_agents_and_controllers_know_each_other() {
    let objects = render(&[]);
    let mut authorities = Vec::new();
    for (component, peer) in [("agent", "controller"), ("controller", "agent")] {
        let directory = TempDir::new().unwrap();
        let object = objects.get("Secret", &format!("pulsepath-{component}-tls"));
        let file = |key| mount(directory.path(), object, key);
        let files = TlsFiles {
            ca: file("ca.crt"),
            cert: file("tls.crt"),
            key: file("tls.key"),
            peer: Some(format!("pulsepath-{peer}")),
        };
        Credentials::open(files).unwrap();
        authorities.push(secret(object, "ca.crt"));
    }
    assert_eq!(authorities[0], authorities[1]);
}

#[test]
fn secrets_of_the_users_own_are_mounted_and_none_made() {
    let objects = render(&[
        "clusterKey.existingSecret=my-key",
        "tls.source=secret",
        "tls.existingSecrets.agent=my-agents",
        "tls.existingSecrets.controller=my-controllers",
    ]);
    assert!(!objects.names().iter().any(|(kind, _)| *kind == "Secret"));
    let agent = objects.agent()["volumes"].to_string();
    assert!(
        agent.contains("my-agents") && !agent.contains("my-controllers"),
        "{agent}"
    );
    let controller = objects.controller()["volumes"].to_string();
    assert!(controller.contains("my-key") && controller.contains("my-controllers"));
}

#[test]
fn cert_manager_is_asked_for_certificates_with_the_same_names() {
    let objects = render(&[
        "tls.source=certManager",
        "tls.certManager.issuerRef.name=ours",
    ]);
    assert!(objects.find("Secret", "pulsepath-agent-tls").is_none());
    for component in ["agent", "controller"] {
        let name = format!("pulsepath-{component}");
        let certificate = &objects.get("Certificate", &name)["spec"];
        assert_eq!(certificate["secretName"], format!("{name}-tls"));
        assert_eq!(certificate["dnsNames"], serde_json::json!([name]));
    }
}
