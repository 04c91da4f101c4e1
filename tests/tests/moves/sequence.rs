//! OVN-Kubernetes' own end-to-end sequence for egress IPs, with cuts instead of blocked health
//! checks: https://github.com/ovn-kubernetes/ovn-kubernetes/blob/master/test/e2e/egressip.go

use controller::api::State;
use pulsepath_tests::egress::Setup;

use crate::{start, start_with_one_address};

const SETTINGS: &str = "period = '100ms'\ntimeout = '500ms'";

#[test]
fn one_address_follows_cuts_drains_and_labels_and_stays_otherwise() {
    let (_alone, mut scene) = start_with_one_address("seq1", SETTINGS);
    // Either may be chosen first: the names are given afterwards.
    let n1 = scene.owner().unwrap();
    let n2 = 3 - n1;
    scene.cut(n1).unwrap();
    scene.await_owner(n2).unwrap();
    scene.cut(n2).unwrap();
    scene.await_assigned(0).unwrap();
    scene.heal(n1).unwrap();
    scene.await_owner(n1).unwrap();
    let since = scene.address().unwrap().since;
    scene.heal(n2).unwrap();
    scene.await_eligible(n2).unwrap();
    assert_eq!(
        (scene.owner().unwrap(), scene.address().unwrap().since),
        (n1, since)
    );
    scene.drain(n1).unwrap();
    scene.await_owner(n2).unwrap();
    scene.cut(n1).unwrap();
    scene.await_state(n1, State::Unreachable).unwrap();
    scene.select(&[n1]).unwrap();
    scene.await_assigned(0).unwrap();
    scene.undrain(n1).unwrap();
    scene.await_assigned(0).unwrap();
    scene.heal(n1).unwrap();
    scene.await_owner(n1).unwrap();
}

#[test]
fn as_many_of_two_addresses_are_assigned_as_there_are_nodes() {
    let setup = Setup {
        settings: SETTINGS.to_owned(),
        egress_ips: vec!["10.78.0.100-10.78.0.101".to_owned()],
        ..Setup::default()
    };
    let (_alone, scene) = start("seq2", setup);
    scene.await_assigned(2).unwrap();
    scene.cut(1).unwrap();
    scene.await_assigned(1).unwrap();
    scene.cut(2).unwrap();
    scene.await_assigned(0).unwrap();
    scene.heal(1).unwrap();
    scene.await_assigned(1).unwrap();
}
