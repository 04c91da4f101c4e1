//! What becomes of gateways.

use std::net::IpAddr;

use pulsepath_tests::egress::{EGRESS_IP, PATIENCE, Stream};
use pulsepath_tests::{LinkState, eventually};

use crate::shared::with_installation;
use crate::wait_for_nothing;

/// Another address on the external segment.
const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 78, 0, 101));

#[test]
fn an_egress_ip_leaves_a_node_that_is_cut_off_and_stays_where_it_went() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        let first = installation.await_owner_other_than(None).unwrap();
        let external = installation.site().external();
        let stream = eventually(PATIENCE, || Stream::start(external));
        installation
            .site()
            .set_links(first.node, LinkState::Down)
            .unwrap();
        let second = installation
            .await_owner_other_than(Some(first.node))
            .unwrap();
        stream.await_answers(1000, PATIENCE).unwrap();
        installation
            .site()
            .set_links(first.node, LinkState::Up)
            .unwrap();
        installation.await_all_available().unwrap();
        wait_for_nothing();
        assert_eq!(installation.owner().unwrap(), second);
        let report = stream.finish();
        assert_eq!(
            report.sources.keys().collect::<Vec<_>>(),
            [&IpAddr::V4(EGRESS_IP)]
        );
    });
}

#[test]
fn people_are_told_of_a_lost_node_and_of_the_move_by_events() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        let owner = installation.await_owner_other_than(None).unwrap();
        let name = format!("n{}", owner.node);
        installation
            .site()
            .set_links(owner.node, LinkState::Down)
            .unwrap();
        let of_node = eventually(PATIENCE, || {
            installation
                .events(&name, "DatapathUnreachable")
                .unwrap()
                .pop()
        });
        assert_eq!(of_node["type"], "Warning");
        eventually(PATIENCE, || {
            let moved = installation.events("gw", "EgressIPMoved").unwrap();
            moved.iter().any(|event| {
                event["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(&name))
            })
        });
    });
}

#[test]
fn a_gateway_that_changes_while_its_owner_is_down_is_as_its_spec_says() {
    with_installation(|installation| {
        installation
            .apply_gateway_of(&[EGRESS_IP.into(), SECOND])
            .unwrap();
        let owner = installation.await_owner_other_than(None).unwrap();
        eventually(PATIENCE, || installation.owner_of(SECOND));
        installation
            .site()
            .set_links(owner.node, LinkState::Down)
            .unwrap();
        installation.apply_gateway_of(&[SECOND]).unwrap();
        eventually(PATIENCE, || {
            let left = installation.owner_of(SECOND).unwrap().node;
            left != owner.node && installation.owner().is_err()
        });
        installation
            .site()
            .set_links(owner.node, LinkState::Up)
            .unwrap();
        installation.await_all_available().unwrap();
        assert_ne!(installation.owner_of(SECOND).unwrap().node, owner.node);
    });
}

#[test]
fn addresses_of_a_gateway_that_is_deleted_while_its_owner_is_down_are_free() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        let owner = installation.await_owner_other_than(None).unwrap();
        installation
            .site()
            .set_links(owner.node, LinkState::Down)
            .unwrap();
        installation
            .site()
            .plane()
            .kubectl(&["delete", "egw", "gw"])
            .unwrap();
        installation.apply_gateway().unwrap();
        let next = installation
            .await_owner_other_than(Some(owner.node))
            .unwrap();
        installation
            .site()
            .set_links(owner.node, LinkState::Up)
            .unwrap();
        installation.await_all_available().unwrap();
        assert_eq!(installation.owner().unwrap(), next);
        let external = installation.site().external();
        drop(eventually(PATIENCE, || Stream::start(external)));
    });
}
