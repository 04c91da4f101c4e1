//! What the controllers ask of the API server, and what the chart lets them ask for.

use std::collections::BTreeSet;

use controller::api::State;
use pulsepath_tests::LinkState;
use pulsepath_tests::egress::PATIENCE;
use pulsepath_tests::eventually;
use pulsepath_tests::kubernetes::{Installation, RELEASE, Right};
use serde_json::Value;

use crate::shared::with_installation;
use crate::wait_for_nothing;

#[test]
fn the_controllers_use_every_right_that_they_have_and_miss_none() {
    with_installation(|installation| {
        live(installation);
        let granted = granted(installation);
        eventually(PATIENCE, || {
            let account = installation.account().unwrap();
            assert_eq!(account.missing(), BTreeSet::new(), "refused");
            let unused: Vec<_> = granted.difference(&account.used()).cloned().collect();
            if unused.is_empty() {
                Ok(())
            } else {
                Err(unused)
            }
        });
    });
}

#[test]
fn at_rest_nothing_is_written_but_the_lease() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        installation.await_owner_other_than(None).unwrap();
        wait_for_nothing();
        let before = installation.account().unwrap().len();
        wait_for_nothing();
        let written = installation.account().unwrap().writes_after(before);
        let others: Vec<_> = written
            .iter()
            .filter(|right| right.resource != "leases")
            .collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(!written.is_empty(), "the lease is not renewed");
    });
}

/// Whatever makes controllers use their rights: a gateway, a node that is lost twice, one that is
/// deleted, a new leader.
fn live(installation: &Installation) {
    installation.apply_gateway().unwrap();
    installation.await_owner_other_than(None).unwrap();
    for _ in 0..2 {
        installation.site().set_links(1, LinkState::Down).unwrap();
        installation
            .await_state("n1", Some(State::Unreachable))
            .unwrap();
        installation.site().set_links(1, LinkState::Up).unwrap();
        installation
            .await_state("n1", Some(State::Available))
            .unwrap();
    }
    let plane = installation.site().plane();
    let ghost = "{ apiVersion: v1, kind: Node, metadata: { name: ghost } }";
    plane.apply(ghost).unwrap();
    installation
        .await_state("ghost", Some(State::Unreachable))
        .unwrap();
    plane.kubectl(&["delete", "node", "ghost"]).unwrap();
    // The garbage collector deletes its NodeHealth, too, and may be first: the leader has its time.
    eventually(PATIENCE, || {
        let used = installation.account().unwrap().used();
        let mut deletions = used.iter().filter(|it| it.verb == "delete");
        let found = deletions.any(|it| it.resource == "nodehealths");
        found.then_some(()).ok_or(used)
    });
    let leader = eventually(PATIENCE, || installation.leader());
    installation.kill_controllers(&[leader]).unwrap();
    eventually(PATIENCE, || installation.leader());
}

fn granted(installation: &Installation) -> BTreeSet<Right> {
    let role = |arguments: &[&str]| {
        let arguments = [&["get", "--output=json"], arguments].concat();
        let text = installation.site().plane().kubectl(&arguments).unwrap();
        let role: Value = serde_json::from_str(&text).unwrap();
        Right::granted_by(&role)
    };
    let mut rights = role(&["clusterrole", "pulsepath-controller"]);
    rights.extend(role(&[
        "role",
        "pulsepath-controller",
        "--namespace",
        RELEASE,
    ]));
    rights
}
