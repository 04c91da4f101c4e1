//! Nodes that take whatever is pushed, certificates, and one controller's pool.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use controller::channel::{AgentPool, Answer, Certified, Outcome, Pair};
use probe_user::channel::{
    Bound, Credentials, Identity, KeyPush, Node, Push, Refusal, Report, Security, TlsFiles,
};
use probe_user::egress::{AddressReport, AddressState, Claim, Desired, EgressIp};
use pulsepath_tests::Node as Place;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// Nothing here takes nearly as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const VALIDITY: Duration = Duration::from_secs(3600);

/// An authority with its files.
pub(crate) struct Authority {
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Self { directory };
        let made = Certified::authority(VALIDITY).unwrap();
        made.write_new(&authority.pair("ca")).unwrap();
        authority
    }

    fn pair(&self, name: &str) -> Pair {
        let file = |suffix| self.directory.path().join(format!("{name}.{suffix}"));
        Pair {
            cert: file("crt"),
            key: file("key"),
        }
    }

    /// The files of a certificate for `identity`.
    pub(crate) fn certify(&self, identity: &Identity) -> TlsFiles {
        let name = match identity {
            Identity::Controller => "controller",
            Identity::Node(name) | Identity::Named(name) => name,
        };
        let (ca, pair) = (self.pair("ca"), self.pair(name));
        let made = Certified::issue(identity, VALIDITY, &ca).unwrap();
        made.write_new(&pair).unwrap();
        TlsFiles {
            ca: ca.cert,
            cert: pair.cert,
            key: pair.key,
            peer: None,
        }
    }

    pub(crate) fn node(&self, name: &str) -> TlsFiles {
        self.certify(&Identity::Node(name.to_owned()))
    }

    pub(crate) fn controller(&self) -> Security {
        mutual(self.certify(&Identity::Controller))
    }
}

pub(crate) fn mutual(files: TlsFiles) -> Security {
    Security::Mutual(Arc::new(Credentials::open(files).unwrap()))
}

/// Puts `new` where `old` is, file by file.
pub(crate) fn replace(old: &TlsFiles, new: &TlsFiles) {
    for (old, new) in [
        (&old.ca, &new.ca),
        (&old.cert, &new.cert),
        (&old.key, &new.key),
    ] {
        let beside = old.with_extension("new");
        std::fs::copy::<&Path, &Path>(new, &beside).unwrap();
        std::fs::rename(&beside, old).unwrap();
    }
}

/// A node that takes whatever is pushed, unless it hangs.
#[derive(Clone)]
pub(crate) struct WillingNode {
    hangs: watch::Receiver<bool>,
    calls: Arc<watch::Sender<usize>>,
    last: Arc<Mutex<Option<Push>>>,
}

impl WillingNode {
    pub(crate) fn new(hangs: watch::Receiver<bool>) -> Self {
        Self {
            hangs,
            calls: Arc::new(watch::Sender::new(0)),
            last: Arc::default(),
        }
    }

    pub(crate) fn healthy() -> Self {
        Self::new(watch::channel(false).1)
    }

    /// Waits until it has been called so often.
    pub(crate) async fn called(&self, times: usize) {
        let mut calls = self.calls.subscribe();
        let called = calls.wait_for(|calls| *calls >= times);
        let called = tokio::time::timeout(PATIENCE, called).await;
        called.expect("nobody calls").unwrap();
    }

    pub(crate) fn last(&self) -> Option<Push> {
        self.last.lock().unwrap().clone()
    }
}

impl Node for WillingNode {
    async fn apply(&self, push: Push) -> Result<Report, Refusal> {
        self.calls.send_modify(|calls| *calls += 1);
        // An error means that it will hang no more.
        let _ = self.hangs.clone().wait_for(|hangs| !hangs).await;
        *self.last.lock().unwrap() = Some(push);
        Ok(self.report())
    }

    async fn replace_keys(&self, _: KeyPush) -> Result<(), Refusal> {
        self.calls.send_modify(|calls| *calls += 1);
        Ok(())
    }

    fn report(&self) -> Report {
        let push = self.last();
        let announced = |egress_ip: EgressIp| AddressReport {
            address: egress_ip.address,
            state: AddressState::Announced,
        };
        let desired = push.map(|push| push.desired);
        Report {
            applied_epoch: desired.as_ref().map_or(0, |desired| desired.epoch),
            incarnation: 7,
            addresses: desired
                .into_iter()
                .flat_map(|desired| desired.addresses)
                .map(announced)
                .collect(),
            not_fenced: Vec::new(),
            witness_version: 0,
        }
    }
}

/// Serves a node on some port of the loopback interface, for as long as the runtime lives.
pub(crate) async fn serve(node: WillingNode, security: Security) -> SocketAddr {
    let bound = Bound::bind((Ipv4Addr::LOCALHOST, 0).into(), security);
    let bound = bound.await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.run(node));
    address
}

pub(crate) fn push(epoch: u64) -> Push {
    Push {
        incarnation: None,
        desired: Desired {
            epoch,
            addresses: vec![EgressIp {
                gateway: "web".to_owned(),
                address: "10.78.0.100".parse().unwrap(),
                claim: Claim::Failover,
                sources: Vec::new(),
                interface: None,
                routed: false,
            }],
            gateways: Vec::new(),
            lease_ms: 0,
            witnesses: None,
        },
    }
}

/// What the agent says first to a controller that wants it to have `push`.
pub(crate) async fn ask(
    security: Security,
    node: &str,
    address: SocketAddr,
    push: Push,
) -> Result<Report, String> {
    let (mut pool, mut answers) = AgentPool::new(security);
    pool.set_desired(node, vec![address], push);
    match next(&mut answers).await.outcome {
        Outcome::Done(report) => Ok(report),
        Outcome::Failed(failure) => Err(failure.to_string()),
    }
}

pub(crate) async fn next<R>(answers: &mut UnboundedReceiver<Answer<R>>) -> Answer<R> {
    let answer = tokio::time::timeout(PATIENCE, answers.recv()).await;
    answer.expect("no answer comes").unwrap()
}

/// Runs something asynchronous on a thread inside the node's namespace.
pub(crate) fn block_on_in<T: Send>(node: &Place, run: impl AsyncFnOnce() -> T + Send) -> T {
    let block_on = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run())
    };
    node.netns().enter(block_on).unwrap()
}
