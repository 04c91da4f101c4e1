//! Whether one node hears another.

use std::time::{Duration, Instant};

use probe_user::channel::{AskReport, Question};
use pulsepath_tests::LinkState;
use tonic::Code;

use crate::scene::{GATEWAY, SOON, Scene};

fn question(scene: &Scene, node: u8, wait: Duration) -> Question {
    Question {
        watched: scene.watched(node, 0),
        wait,
        max_age: Duration::from_millis(500),
        port: 862,
    }
}

fn ask(scene: &Scene, node: u8, wait: Duration) -> AskReport {
    scene.try_ask(2, question(scene, node, wait)).unwrap()
}

#[test]
fn a_node_that_is_heard_is_answered_for_at_once_whether_it_is_watched_or_not() {
    let scene = Scene::new("ask", 2);
    scene.watch(2, 1, 0);
    for node in [GATEWAY, 3] {
        let asked = Instant::now();
        let report = ask(&scene, node, SOON);
        assert!(asked.elapsed() < SOON / 2);
        let heard = report.heard;
        assert!(
            heard.heard_ago.is_some_and(|ago| ago < SOON / 2),
            "{heard:?}"
        );
        assert!(heard.agent_up, "{heard:?}");
        assert_eq!(heard.node, scene.node(node).name());
        assert_ne!(heard.incarnation, 0);
        assert_eq!(report.instance, Some(scene.instance(2)));
    }
}

#[test]
fn a_node_that_is_not_heard_is_answered_for_when_the_time_is_over() {
    let scene = Scene::new("ask-cut", 2);
    scene.cluster.set_link(3, LinkState::Down).unwrap();
    let asked = Instant::now();
    let report = ask(&scene, 3, Duration::from_millis(700));
    assert!(asked.elapsed() >= Duration::from_millis(700));
    assert_eq!(report.heard.heard_ago, None);
}

#[test]
fn a_node_says_nothing_about_itself() {
    let scene = Scene::new("ask-itself", 1);
    let status = scene.try_ask(2, question(&scene, 2, SOON)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[test]
fn an_agent_without_kernel_programs_answers_but_is_no_witness() {
    let mut scene = Scene::new("ask-user", 2);
    scene.kill(2);
    scene.start_without_programs(2);
    let report = ask(&scene, GATEWAY, SOON);
    assert!(report.heard.heard_ago.is_some(), "{report:?}");
    assert_eq!(report.instance, None);
    let duty = scene.duty(3, 1, vec![scene.watched(GATEWAY, 1)]);
    let status = scene.try_tell(2, duty).unwrap_err();
    assert!(status.message().contains("cannot be a witness"), "{status}");
}
