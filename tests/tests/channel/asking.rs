//! Agents are asked whether they hear a node.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use controller::channel::{AskFailure, Asker};
use probe_user::channel::{
    AskReport, Bound, Heard, KeyPush, Node, Push, Question, Refusal, Report, Security, Watched,
};
use probe_user::keys::ClusterKeys;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::scene::{Authority, PATIENCE, mutual};

/// What everything takes that is not waited for.
const SHORT: Duration = Duration::from_millis(300);

/// A node that hears everybody, unless it hangs.
struct Hearing {
    hangs: bool,
}

impl Node for Hearing {
    async fn apply(&self, _: Push) -> Result<Report, Refusal> {
        Err(Refusal::Unable("nobody pushes here".to_owned()))
    }

    fn report(&self) -> Report {
        Report {
            applied_epoch: 0,
            incarnation: 0,
            addresses: Vec::new(),
            not_fenced: Vec::new(),
            witness_version: 0,
        }
    }

    async fn replace_keys(&self, _: KeyPush) -> Result<(), Refusal> {
        Err(Refusal::Unable("nobody has keys for it".to_owned()))
    }

    async fn ask(&self, question: Question) -> Result<AskReport, Refusal> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let heard = Heard {
            node: question.watched.node().to_owned(),
            heard_ago: Some(Duration::from_millis(7)),
            ..Heard::default()
        };
        Ok(AskReport {
            instance: None,
            heard,
        })
    }
}

/// An agent in a thread of its own, until it is dropped.
struct Agent {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(listen: SocketAddr, node: Hearing, security: Security) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (say, address) = mpsc::channel();
        let thread = thread::spawn(move || {
            run(async {
                let bound = Bound::bind(listen, security).await.unwrap();
                say.send(bound.local_addr()).unwrap();
                tokio::select! {
                    served = bound.run(node) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            address: address.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn plain(listen: SocketAddr, hangs: bool) -> Self {
        Self::start(listen, Hearing { hangs }, Security::Plaintext)
    }
}

impl Drop for Agent {
    /// Its connections are gone when it is.
    fn drop(&mut self) {
        self.stop.take();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|it| it.is_ok()) || thread::panicking());
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn question() -> Question {
    Question {
        watched: Watched {
            keys: ClusterKeys::generate(1).unwrap().node_keys("n2"),
            addresses: vec![[10, 77, 0, 2].into()],
            floor: 0,
            vote: false,
        },
        wait: Duration::ZERO,
        max_age: Duration::from_secs(1),
        port: 862,
    }
}

async fn ask(
    asker: &mut Asker,
    address: SocketAddr,
    limit: Duration,
) -> Result<AskReport, AskFailure> {
    asker.ask("n1", &[address], question(), limit).await
}

fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

#[test]
fn an_agent_answers_over_a_connection_on_which_both_are_sure_of_each_other() {
    let authority = Authority::new();
    let security = mutual(authority.node("n1"));
    let agent = Agent::start(any_port(), Hearing { hangs: false }, security);
    let mut asker = Asker::new(authority.controller());
    run(async {
        let report = ask(&mut asker, agent.address, PATIENCE).await.unwrap();
        assert_eq!(report.heard.heard_ago, Some(Duration::from_millis(7)));
        assert_eq!(report.heard.node, "n2");
    });
}

#[test]
fn another_node_in_its_place_is_not_believed() {
    let authority = Authority::new();
    let security = mutual(authority.node("n3"));
    let agent = Agent::start(any_port(), Hearing { hangs: false }, security);
    let mut asker = Asker::new(authority.controller());
    run(async {
        let failure = ask(&mut asker, agent.address, PATIENCE).await.unwrap_err();
        assert!(matches!(failure, AskFailure::Unreachable(_)), "{failure}");
    });
}

#[test]
fn an_agent_that_was_restarted_answers_the_first_question() {
    let agent = Agent::plain(any_port(), false);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let address = agent.address;
        ask(&mut asker, address, PATIENCE).await.unwrap();
        drop(agent);
        let _agent = Agent::plain(address, false);
        ask(&mut asker, address, PATIENCE).await.unwrap();
    });
}

#[test]
fn an_agent_that_hangs_is_not_waited_for() {
    let agent = Agent::plain(any_port(), true);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let failure = ask(&mut asker, agent.address, SHORT).await.unwrap_err();
        assert!(matches!(failure, AskFailure::Late), "{failure}");
    });
}

#[test]
fn of_two_addresses_one_that_answers_is_enough() {
    let dead = Agent::plain(any_port(), false).address;
    let agent = Agent::plain(any_port(), false);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let both = [dead, agent.address];
        asker.ask("n1", &both, question(), PATIENCE).await.unwrap();
    });
}

#[test]
fn an_agent_without_an_address_cannot_be_asked() {
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let failure = asker.ask("n1", &[], question(), PATIENCE).await;
        assert!(matches!(failure, Err(AskFailure::Unreachable(_))));
    });
}
