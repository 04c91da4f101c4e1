//! Agents are asked whether they hear a node.

use std::net::SocketAddr;
use std::time::Duration;

use controller::channel::{AskFailure, Asker};
use probe_user::channel::{
    AskReport, Bound, Heard, Node, Push, Question, Refusal, Report, Security, Watched,
};
use probe_user::keys::ClusterKeys;
use tokio::runtime::{Builder, Runtime};

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

/// An agent in a runtime of its own, which ends with that.
fn serve(listen: SocketAddr, node: Hearing, security: Security) -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let bound = runtime.block_on(Bound::bind(listen, security)).unwrap();
    let address = bound.local_addr();
    runtime.spawn(bound.run(node));
    (runtime, address)
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
    let (_agent, address) = serve(any_port(), Hearing { hangs: false }, security);
    let mut asker = Asker::new(authority.controller());
    run(async {
        let report = ask(&mut asker, address, PATIENCE).await.unwrap();
        assert_eq!(report.heard.heard_ago, Some(Duration::from_millis(7)));
        assert_eq!(report.heard.node, "n2");
    });
}

#[test]
fn another_node_in_its_place_is_not_believed() {
    let authority = Authority::new();
    let security = mutual(authority.node("n3"));
    let (_agent, address) = serve(any_port(), Hearing { hangs: false }, security);
    let mut asker = Asker::new(authority.controller());
    run(async {
        let failure = ask(&mut asker, address, PATIENCE).await.unwrap_err();
        assert!(matches!(failure, AskFailure::Unreachable(_)), "{failure}");
    });
}

#[test]
fn an_agent_that_was_restarted_answers_the_first_question() {
    let (agent, address) = serve(any_port(), Hearing { hangs: false }, Security::Plaintext);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        ask(&mut asker, address, PATIENCE).await.unwrap();
        agent.shutdown_background();
        let again = || serve(address, Hearing { hangs: false }, Security::Plaintext);
        let _agent = tokio::task::spawn_blocking(again).await.unwrap();
        ask(&mut asker, address, PATIENCE).await.unwrap();
    });
}

#[test]
fn an_agent_that_hangs_is_not_waited_for() {
    let (_agent, address) = serve(any_port(), Hearing { hangs: true }, Security::Plaintext);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let failure = ask(&mut asker, address, SHORT).await.unwrap_err();
        assert!(matches!(failure, AskFailure::Late), "{failure}");
    });
}

#[test]
fn of_two_addresses_one_that_answers_is_enough() {
    let (agent, dead) = serve(any_port(), Hearing { hangs: false }, Security::Plaintext);
    agent.shutdown_background();
    let (_agent, address) = serve(any_port(), Hearing { hangs: false }, Security::Plaintext);
    let mut asker = Asker::new(Security::Plaintext);
    run(async {
        let both = [dead, address];
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
