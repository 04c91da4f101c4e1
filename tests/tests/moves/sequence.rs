//! OVN-Kubernetes' own end-to-end sequence for egress IPs, with cuts instead of blocked health
//! checks: https://github.com/ovn-kubernetes/ovn-kubernetes/blob/master/test/e2e/egressip.go

use controller::api::State;

use crate::scene::Scene;

const SETTINGS: &str = "period = '100ms'\ntimeout = '500ms'";

#[test]
fn one_address_follows_cuts_drains_and_labels_and_stays_otherwise() {
    let scene = Scene::with_one_address("seq1", SETTINGS);
    // Either may be chosen first: the names are given afterwards.
    let n1 = scene.owner();
    let n2 = 3 - n1;
    scene.cut(n1);
    scene.await_owner(n2);
    scene.cut(n2);
    scene.await_assigned(0);
    scene.heal(n1);
    scene.await_owner(n1);
    let since = scene.address().since;
    scene.heal(n2);
    scene.await_eligible(n2);
    assert_eq!((scene.owner(), scene.address().since), (n1, since));
    scene.drain(n1);
    scene.await_owner(n2);
    scene.cut(n1);
    scene.await_state(n1, State::Unreachable);
    scene.select(&[n1]);
    scene.await_assigned(0);
    scene.undrain(n1);
    scene.await_assigned(0);
    scene.heal(n1);
    scene.await_owner(n1);
}

#[test]
fn as_many_of_two_addresses_are_assigned_as_there_are_nodes() {
    let scene = Scene::new("seq2", SETTINGS, &["10.78.0.100", "10.78.0.101"]);
    scene.await_assigned(2);
    scene.cut(1);
    scene.await_assigned(1);
    scene.cut(2);
    scene.await_assigned(0);
    scene.heal(1);
    scene.await_assigned(1);
}
