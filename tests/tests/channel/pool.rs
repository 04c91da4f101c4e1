//! Many agents, some of which hang.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use controller::channel::{AgentPool, Answer, Failure, Outcome};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use probe_user::channel::Security;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::scene::{Authority, PATIENCE, WillingNode, ask, mutual, next, push, serve};

const AGENTS: usize = 1000;
/// So many accept connections and never say a word.
const MUTE: usize = 50;
/// So many answer at first, and then hang with the call in their hands.
const HANGING: usize = 50;

/// How long it may take to tell those that do not hang, connections included. What is promised is
/// promised of optimised code.
const SOON: Duration = Duration::from_secs(if cfg!(debug_assertions) { 120 } else { 1 });

fn name(index: usize) -> String {
    format!("n{index}")
}

/// Serves all agents from a thread of its own, as they would not share one with the controller
/// either. The first `MUTE` are mute; the next `HANGING` hang while `hang` holds.
fn serve_all(security: Vec<Security>, hang: watch::Receiver<bool>) -> Vec<SocketAddr> {
    let (send, addresses) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut mute = Vec::new();
            let mut served = Vec::new();
            for (index, security) in security.into_iter().enumerate() {
                if index < MUTE {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    served.push(listener.local_addr().unwrap());
                    mute.push(listener);
                } else if index < MUTE + HANGING {
                    served.push(serve(WillingNode::new(hang.clone()), security).await);
                } else {
                    served.push(serve(WillingNode::healthy(), security).await);
                }
            }
            send.send(served).unwrap();
            std::future::pending::<()>().await;
        });
    });
    addresses.recv().unwrap()
}

/// Waits until all of these nodes have applied `epoch`; how long that took since `begin`.
async fn applied(
    answers: &mut UnboundedReceiver<Answer>,
    epoch: u64,
    nodes: Range<usize>,
    begin: Instant,
) -> Duration {
    let mut waiting: BTreeSet<String> = nodes.map(name).collect();
    while !waiting.is_empty() {
        let answer = next(answers).await;
        match &answer.outcome {
            Outcome::Done(report) if report.applied_epoch == epoch => {
                waiting.remove(&*answer.node);
            }
            other => assert!(
                begin.elapsed() < SOON.max(PATIENCE),
                "{} are not applied; {}: {other:?}",
                waiting.len(),
                answer.node
            ),
        }
    }
    begin.elapsed()
}

fn allow_many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[tokio::test]
async fn of_a_thousand_agents_a_hundred_hang_and_hold_no_other_up() {
    allow_many_files();
    let authority = Authority::new();
    let security = (0..AGENTS).map(|index| mutual(authority.node(&name(index))));
    let (hang, hanging) = watch::channel(true);
    let addresses = serve_all(security.collect(), hanging);
    let (mut pool, mut answers) = AgentPool::new(authority.controller());
    let mut tell = |epoch| {
        let begin = Instant::now();
        for (index, address) in addresses.iter().enumerate() {
            pool.set_desired(&name(index), vec![*address], push(epoch));
        }
        begin
    };

    let well = MUTE + HANGING..AGENTS;
    let begin = tell(1);
    let cold = applied(&mut answers, 1, well.clone(), begin).await;
    let begin = tell(2);
    let warm = applied(&mut answers, 2, well, begin).await;
    println!(
        "900 applied beside 100 that hang after {cold:.2?}, and once connected after {warm:.2?}"
    );
    assert!(cold <= SOON && warm <= SOON, "{cold:?}, {warm:?}");

    hang.send(false).unwrap();
    applied(&mut answers, 2, MUTE..MUTE + HANGING, Instant::now()).await;
}

#[tokio::test]
async fn agents_that_hang_while_they_are_connected_to_do_not_keep_others_waiting() {
    let authority = Authority::new();
    // It accepts connections as far as the kernel does that for it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = listener.local_addr().unwrap();
    let well = serve(WillingNode::healthy(), mutual(authority.node("n0"))).await;
    let (mut pool, mut answers) = AgentPool::new(authority.controller());
    // Twice as many as are connected to at once.
    let crowd = 16 * thread::available_parallelism().unwrap().get();
    for index in 1..=crowd {
        pool.set_desired(&name(index), vec![mute], push(1));
    }
    pool.set_desired(&name(0), vec![well], push(1));
    let took = applied(&mut answers, 1, 0..1, Instant::now()).await;
    println!("connected behind {crowd} that hang after {took:.2?}");
    // Those are given up after five seconds.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_reported_and_tried_at_its_other_address() {
    let authority = Authority::new();
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = vec![
        deaf.local_addr().unwrap(),
        serve(WillingNode::healthy(), mutual(authority.node("n1"))).await,
    ];
    drop(deaf);
    let (mut pool, mut answers) = AgentPool::new(authority.controller());
    pool.set_desired("n1", addresses, push(1));
    let first = next(&mut answers).await.outcome;
    assert!(
        matches!(first, Outcome::Failed(Failure::NoAnswer { .. })),
        "{first:?}"
    );
    let second = next(&mut answers).await.outcome;
    assert!(matches!(second, Outcome::Done(_)), "{second:?}");
}

#[tokio::test]
async fn the_newest_push_replaces_what_is_under_way() {
    let (hang, hanging) = watch::channel(true);
    let node = WillingNode::new(hanging);
    let address = serve(node.clone(), Security::Plaintext).await;
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![address], push(1));
    node.called(1).await;
    pool.set_desired("n1", vec![address], push(2));
    node.called(2).await;
    hang.send(false).unwrap();
    let answer = next(&mut answers).await;
    assert_eq!(answer.version, 2);
    assert_eq!(node.last(), Some(push(2)));
}

#[tokio::test]
async fn a_node_that_is_forgotten_is_told_nothing_more() {
    let node = WillingNode::healthy();
    let address = serve(node, Security::Plaintext).await;
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![address], push(1));
    next(&mut answers).await;
    pool.forget("n1");
    drop(pool);
    assert!(answers.recv().await.is_none());
}

#[tokio::test]
async fn an_agent_that_comes_back_is_told_without_being_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = ask(Security::Plaintext, "n1", address, push(1)).await;
    assert!(refused.unwrap_err().contains("does not answer"));
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![address], push(1));
    assert!(matches!(
        next(&mut answers).await.outcome,
        Outcome::Failed(_)
    ));
    let bound = probe_user::channel::Bound::bind(address, Security::Plaintext);
    tokio::spawn(bound.await.unwrap().run(WillingNode::healthy()));
    applied(&mut answers, 1, 1..2, Instant::now()).await;
}
