//! What a witness does, and what it refuses.

use probe_user::channel::Duty;
use tonic::Code;

use crate::scene::{GATEWAY, Scene};

#[test]
fn an_older_duty_is_refused_also_after_a_restart() {
    let mut scene = Scene::new("older", 1);
    scene.watch(2, 5, 0);
    for restarted in [false, true] {
        if restarted {
            scene.kill(2);
            scene.start(2);
        }
        let older = scene.duty(2, 4, Vec::new());
        let status = scene.try_tell(2, older).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(
            status.message().contains("duty 4 is older than 5"),
            "{status}"
        );
        assert!(scene.heard(2).is_some(), "the present one goes on");
    }
}

#[test]
fn a_duty_that_is_meant_for_another_witness_is_refused() {
    let scene = Scene::new("other", 1);
    let other = Duty {
        instance: Some(scene.instance(2) ^ 1),
        ..scene.duty(2, 1, vec![scene.watched(GATEWAY, 0)])
    };
    let status = scene.try_tell(2, other).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(scene.heard(2).is_none());
}

#[test]
fn a_node_is_never_its_own_witness() {
    let scene = Scene::new("itself", 1);
    let duty = scene.duty(2, 1, vec![scene.watched(GATEWAY, 0), scene.watched(2, 0)]);
    let status = scene.try_tell(2, duty).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(scene.heard(2).is_none());
}

#[test]
fn a_node_takes_no_set_that_holds_itself() {
    let scene = Scene::new("own-set", 2);
    let set = scene.set(1, &[2, GATEWAY, 3]);
    let status = scene.try_push(1, Some(set)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(scene.push(1, None).witness_version, 0);
}
