//! A node that keeps falling gets no new address for a while.

use std::time::Duration;

use controller::api::State;
use pulsepath_tests::eventually;

use crate::world::{PATIENCE, World};

const HOLD: Duration = Duration::from_secs(2);
const SETTINGS: &str = "period = '50ms'\ntimeout = '500ms'\nlease = '600ms'\n\
                        control.plaintext = true\n\
                        failover.damping = { count = 2, window = '600s', hold = '2s' }\n";

#[test]
fn a_flapping_node_must_stand_longer_with_each_fall_before_it_gets_an_address() {
    let world = World::with_witnesses("flap", "egress_ips = ['10.77.0.100']", SETTINGS);
    world.await_assigned(1);
    // The second fall damps n1, the third doubles the time for which it has to stand.
    for _ in 0..2 {
        world.cut(1);
        world.heal(1);
    }
    world.cut(1);
    world.await_owner(Some(2));
    // Nobody else is left.
    world.cut(2);
    world.await_owner(None);
    world.heal(1);
    eventually(PATIENCE, || {
        let why = world.explain("n1");
        if why.contains("fell too often") {
            Ok(())
        } else {
            Err(why)
        }
    });
    world.await_owner(Some(1));
    let [stands, placed] = [world.node(1).since.0, world.addresses()[0].since.0];
    let waited = placed.duration_since(stands).unwrap();
    println!("placed {waited:.1?} after n1 was back");
    assert!(waited >= 2 * HOLD, "{waited:?}");
    assert_eq!(world.node(1).state, State::Available);
}
