//! Who is let in.

use std::sync::Arc;

use probe_user::channel::{Credentials, Identity, Security, TlsFiles};

use crate::scene::{Authority, WillingNode, ask, mutual, push, replace, serve};

#[tokio::test]
async fn a_controller_and_a_node_of_one_authority_speak() {
    let authority = Authority::new();
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(authority.node("n1"))).await;
    let report = ask(authority.controller(), "n1", address, push(3)).await;
    assert_eq!(report.unwrap().applied_epoch, 3);
    assert_eq!(node.last(), Some(push(3)));
}

#[tokio::test]
async fn a_node_commands_no_other_node() {
    let authority = Authority::new();
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(authority.node("n1"))).await;
    let thief = mutual(authority.node("n2"));
    let answer = ask(thief, "n1", address, push(3)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(node.last(), None);
}

#[tokio::test]
async fn a_controller_tells_a_node_nothing_that_is_meant_for_another() {
    let authority = Authority::new();
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(authority.node("n2"))).await;
    let error = ask(authority.controller(), "n1", address, push(3)).await;
    let error = error.unwrap_err();
    assert!(error.contains("pulsepath://node/n1"), "{error}");
    assert_eq!(node.last(), None);
}

#[tokio::test]
async fn a_controller_of_another_authority_is_turned_away() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(ours.node("n1"))).await;
    // It trusts us, so that it is we who turn it away.
    let mut files = theirs.certify(&Identity::Controller);
    files.ca = ours.certify(&Identity::Controller).ca;
    let answer = ask(mutual(files), "n1", address, push(3)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(node.last(), None);
}

#[tokio::test]
async fn without_tls_nobody_is_let_in() {
    let authority = Authority::new();
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(authority.node("n1"))).await;
    let answer = ask(Security::Plaintext, "n1", address, push(3)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(node.last(), None);
}

#[tokio::test]
async fn replaced_certificates_serve_the_next_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.node("n1");
    let address = serve(WillingNode::healthy(), mutual(files.clone())).await;
    let (before, after) = (old.controller(), new.controller());
    assert!(ask(after.clone(), "n1", address, push(1)).await.is_err());
    replace(&files, &new.node("n1"));
    let report = ask(after, "n1", address, push(2)).await;
    assert_eq!(report.unwrap().applied_epoch, 2);
    let report = ask(before, "n1", address, push(3)).await;
    assert!(report.is_err(), "the old authority is trusted still");
}

#[tokio::test]
async fn certificates_that_are_half_replaced_leave_the_old_ones_in_use() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.node("n1");
    let credentials = Arc::new(Credentials::open(files.clone()).unwrap());
    let address = serve(WillingNode::healthy(), Security::Mutual(credentials)).await;
    std::fs::copy(new.node("n1").cert, &files.cert).unwrap();
    let report = ask(old.controller(), "n1", address, push(1)).await;
    assert_eq!(report.unwrap().applied_epoch, 1);
}

/// An authority whose certificates hold DNS names, as other people's tools make them.
struct Names(Authority);

impl Names {
    fn files(&self, own: &str, peer: &str) -> TlsFiles {
        let files = self.0.certify(&Identity::Named(own.to_owned()));
        let peer = Some(peer.to_owned());
        TlsFiles { peer, ..files }
    }
}

#[tokio::test]
async fn agents_that_share_a_certificate_are_known_by_its_name() {
    let names = Names(Authority::new());
    let controller = mutual(names.files("controllers", "agents"));
    let agent = names.files("agents", "controllers");
    for index in 1..=2 {
        let node = WillingNode::healthy();
        let address = serve(node, mutual(agent.clone())).await;
        let report = ask(controller.clone(), "n1", address, push(index)).await;
        assert_eq!(report.unwrap().applied_epoch, index);
    }
}

#[tokio::test]
async fn agents_that_share_a_certificate_command_none_of_them() {
    let names = Names(Authority::new());
    let node = WillingNode::healthy();
    let agent = names.files("agents", "controllers");
    let address = serve(node.clone(), mutual(agent.clone())).await;
    let answer = ask(mutual(agent), "n1", address, push(3)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(node.last(), None);
}

#[tokio::test]
async fn a_name_counts_for_no_controller_where_none_is_expected() {
    let authority = Authority::new();
    let node = WillingNode::healthy();
    let address = serve(node.clone(), mutual(authority.node("n1"))).await;
    let named = authority.certify(&Identity::Named("controller".to_owned()));
    let answer = ask(mutual(named), "n1", address, push(3)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(node.last(), None);
}
