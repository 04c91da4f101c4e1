//! `grpc.health.v1` of an agent over TLS, as a checker from outside sees it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pulsepath_tests::{Cluster, Process, eventually};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::scene::{PATIENCE, block_on_in};

const NAME: &str = "n1.example";

/// An agent whose health service has a certificate.
struct Scene {
    certificate: Certificate,
    _agent: Process,
    cluster: Cluster,
}

/// Makes a certificate, and puts it and its key where the agent looks for them.
fn certify(directory: &Path) -> Certificate {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = directory.join("health.key");
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(directory.join("health.crt"), made.cert.pem()).unwrap();
    Certificate::from_pem(made.cert.pem())
}

impl Scene {
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, 1).unwrap();
        let files = cluster.files();
        let certificate = certify(files);
        let settings = format!(
            "grpc_health.listen = '127.0.0.1:9107'\n\
             grpc_health.cert_file = {:?}\ngrpc_health.key_file = {:?}",
            files.join("health.crt"),
            files.join("health.key"),
        );
        let node = cluster.node(1);
        let agent = node.spawn_agent(&node.agent_config(&settings)).unwrap();
        Self {
            certificate,
            _agent: agent,
            cluster,
        }
    }

    /// What a client says that trusts this certificate only, and has none of its own.
    fn ask(&self, trusted: &Certificate) -> Result<ServingStatus, String> {
        let tls = ClientTlsConfig::new().ca_certificate(trusted.clone());
        let endpoint = Endpoint::from_static("https://127.0.0.1:9107");
        self.ask_through(endpoint.tls_config(tls.domain_name(NAME)).unwrap())
    }

    fn ask_through(&self, endpoint: Endpoint) -> Result<ServingStatus, String> {
        let ask = async || {
            let channel = endpoint
                .connect()
                .await
                .map_err(|error| format!("{error:?}"))?;
            check(channel).await.map_err(|status| format!("{status:?}"))
        };
        block_on_in(self.cluster.node(1), ask)
    }
}

async fn check(channel: Channel) -> Result<ServingStatus, tonic::Status> {
    let question = HealthCheckRequest::default();
    let answer = HealthClient::new(channel).check(question).await?;
    Ok(answer.into_inner().status())
}

#[test]
fn an_agent_serves_grpc_health_over_tls_to_clients_without_certificates() {
    let scene = Scene::new("q-health-tls");
    eventually(PATIENCE, || {
        let answer = scene.ask(&scene.certificate);
        answer.is_ok_and(|status| status == ServingStatus::Serving)
    });
    let plain = scene.ask_through(Endpoint::from_static("http://127.0.0.1:9107"));
    assert!(plain.is_err(), "{plain:?}");
}

#[test]
fn a_replaced_certificate_of_grpc_health_serves_the_next_client() {
    let scene = Scene::new("q-health-new");
    eventually(PATIENCE, || scene.ask(&scene.certificate));
    let new = certify(scene.cluster.files());
    assert_eq!(scene.ask(&new), Ok(ServingStatus::Serving));
    let old = scene.ask(&scene.certificate);
    assert!(old.is_err(), "{old:?}");
}
