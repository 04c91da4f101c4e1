//! Agents that go and come back, and how soon they are told then.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use controller::api::State;
use controller::channel::{AgentPool, Failure, Outcome};
use probe_user::channel::{Bound, Security};
use pulsepath_tests::{Cluster, LinkState, Process, eventually};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::scene::{PATIENCE, WillingNode, block_on_in, next, push};

/// Whatever happens after this has been waited for: the pool tries again every five seconds.
const AT_ONCE: Duration = Duration::from_millis(2_500);

/// Some address at which nobody listens.
async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Serves a node at `address`, or any, from a thread of its own. When the sender is dropped, all its
/// connections end.
fn serve_for_a_while(node: WillingNode, address: SocketAddr) -> (SocketAddr, oneshot::Sender<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (send, bound_to) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let bound = Bound::bind(address, Security::Plaintext).await.unwrap();
            send.send(bound.local_addr()).unwrap();
            tokio::spawn(bound.run(node));
            // An error is what is waited for.
            let _ = stopped.await;
        });
    });
    (bound_to.recv().unwrap(), stop)
}

#[tokio::test]
async fn the_agent_of_an_unreachable_node_is_tried_rarely() {
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![nowhere().await], push(1));
    pool.set_state("n1", State::Unreachable);
    next(&mut answers).await;
    let second = timeout(AT_ONCE, answers.recv()).await;
    assert!(second.is_err(), "{second:?}");
}

#[tokio::test]
async fn the_agent_of_a_node_that_is_reachable_again_is_told_at_once() {
    let address = nowhere().await;
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![address], push(1));
    pool.set_state("n1", State::Unreachable);
    next(&mut answers).await;
    let (_, _stop) = serve_for_a_while(WillingNode::healthy(), address);
    let back = Instant::now();
    pool.set_state("n1", State::Available);
    let answer = next(&mut answers).await;
    assert!(matches!(answer.outcome, Outcome::Done(_)), "{answer:?}");
    assert!(back.elapsed() < AT_ONCE, "{:?}", back.elapsed());
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_anew_before_it_is_needed() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (address, stop) = serve_for_a_while(WillingNode::healthy(), any);
    let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
    pool.set_desired("n1", vec![address], push(1));
    next(&mut answers).await;
    drop(stop);
    let broken = Instant::now();
    let noticed = next(&mut answers).await;
    assert!(matches!(noticed.outcome, Outcome::Failed(_)), "{noticed:?}");
    assert!(broken.elapsed() < AT_ONCE, "{:?}", broken.elapsed());
    let node = WillingNode::healthy();
    let (_, _stop) = serve_for_a_while(node.clone(), address);
    node.called(1).await;
}

/// A real agent on n1; the controller's end of the channel is on n2.
fn start(purpose: &str) -> (Cluster, Process) {
    let cluster = Cluster::new(purpose, 2).unwrap();
    let node = cluster.node(1);
    let config = node.agent_config("control.plaintext = true");
    let agent = node.spawn_agent(&config).unwrap();
    eventually(PATIENCE, || {
        let answer = node.agent_http("/ready");
        answer.is_ok_and(|answer| answer.status == 200)
    });
    (cluster, agent)
}

fn address(cluster: &Cluster) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(cluster.node(1).ipv4()), 9862)
}

#[test]
fn a_node_that_was_cut_off_is_told_over_a_new_connection_as_soon_as_it_is_back() {
    let (cluster, _agent) = start("q-back");
    let address = address(&cluster);
    block_on_in(cluster.node(2), async || {
        let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
        pool.set_desired("n1", vec![address], push(1));
        next(&mut answers).await;
        cluster.set_link(1, LinkState::Down).unwrap();
        pool.set_state("n1", State::Unreachable);
        pool.set_desired("n1", vec![address], push(2));
        let cut = next(&mut answers).await.outcome;
        let no_answer = matches!(cut, Outcome::Failed(Failure::NoAnswer { .. }));
        assert!(no_answer, "{cut:?}");
        cluster.set_link(1, LinkState::Up).unwrap();
        let back = Instant::now();
        pool.set_state("n1", State::Available);
        let answer = next(&mut answers).await;
        assert!(matches!(answer.outcome, Outcome::Done(_)), "{answer:?}");
        println!("told {:.1?} after the cut was mended", back.elapsed());
        assert!(back.elapsed() < AT_ONCE, "{:?}", back.elapsed());
    });
}

#[test]
fn a_connection_that_is_dead_is_known_for_dead_although_nobody_uses_it() {
    let (cluster, _agent) = start("q-dead");
    let address = address(&cluster);
    block_on_in(cluster.node(2), async || {
        let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
        pool.set_desired("n1", vec![address], push(1));
        next(&mut answers).await;
        cluster.set_link(1, LinkState::Down).unwrap();
        let cut = Instant::now();
        next(&mut answers).await;
        println!("known for dead after {:.1?}", cut.elapsed());
        // It takes two seconds, and one to connect in vain; the pool uses it after five.
        assert!(cut.elapsed() < Duration::from_millis(4_500));
    });
}
