//! The API server fails.

use std::thread::sleep;
use std::time::Duration;

use pulsepath_tests::LinkState;
use pulsepath_tests::egress::PATIENCE;

use crate::shared::with_installation;
use crate::{assert_undisturbed, begin_egress};

/// Far longer than a controller leads without the API server.
const OUTAGE: Duration = Duration::from_secs(12);

#[test]
fn egress_goes_on_while_the_api_server_is_gone() {
    with_installation(|installation| {
        let (owner, stream) = begin_egress(installation);
        installation
            .site_mut()
            .plane_mut()
            .kill_api_server()
            .unwrap();
        sleep(OUTAGE);
        installation
            .site_mut()
            .plane_mut()
            .start_api_server()
            .unwrap();
        installation.await_all_available().unwrap();
        assert_undisturbed(&stream.finish());
        assert_eq!(installation.owner().unwrap(), owner);
    });
}

#[test]
fn a_node_that_is_cut_while_the_api_server_is_gone_is_replaced_once_it_is_back() {
    with_installation(|installation| {
        let (owner, stream) = begin_egress(installation);
        installation
            .site_mut()
            .plane_mut()
            .kill_api_server()
            .unwrap();
        sleep(OUTAGE / 2);
        installation
            .site()
            .set_links(owner.node, LinkState::Down)
            .unwrap();
        let answered = stream.answered();
        sleep(OUTAGE / 2);
        // What was under way when the link was cut may still have come.
        let since = stream.answered() - answered;
        assert!(
            since < 1000,
            "somebody went on without a leader: {since} answers"
        );
        installation
            .site_mut()
            .plane_mut()
            .start_api_server()
            .unwrap();
        installation
            .await_owner_other_than(Some(owner.node))
            .unwrap();
        stream.await_answers(1000, PATIENCE).unwrap();
    });
}
