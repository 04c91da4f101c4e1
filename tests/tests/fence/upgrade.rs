//! Programs and layouts change under traffic.

use std::fs;
use std::time::Duration;

use probe_ebpf::maps::Guard;
use probe_user::kernel::TcSetting;

use crate::keeper::Keeper;
use crate::scene::{OWN, STALE, Scene};
use crate::stream::{Stream, boot_now};

const LONG: Duration = Duration::from_secs(60);
const LONG_MS: u32 = 60_000;

#[test]
fn twenty_upgrades_drop_nothing_that_may_leave_and_let_nothing_else_through() {
    let scene = Scene::new("upgrade", LONG);
    let _keeping = Keeper::new(&scene).keep(LONG_MS);
    let own = Stream::start(&scene, scene.netns(), Some(OWN));
    let stale = Stream::start(&scene, scene.netns(), Some(STALE));
    let before = program(&scene);
    for _ in 0..20 {
        let mut kernel = scene.kernel();
        scene
            .netns()
            .enter(|| kernel.replace_programs())
            .unwrap()
            .unwrap();
        scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
    }
    own.wait_for(100);
    assert_ne!(program(&scene), before, "the program was replaced");
    let (sent, arrived) = own.finish();
    let (sent_stale, arrived_stale) = stale.finish();
    println!(
        "{} of {sent}, and {} of {sent_stale}",
        arrived.len(),
        arrived_stale.len()
    );
    assert_eq!(arrived.len() as u64, sent);
    assert!(arrived_stale.is_empty());
}

fn program(scene: &Scene) -> u32 {
    let links = probe_user::kernel::scan_links(&scene.pins()).unwrap();
    links
        .iter()
        .find(|link| link.kind.is_fence())
        .unwrap()
        .program_id
}

#[test]
fn an_older_layout_keeps_its_guards_and_its_lease() {
    let scene = Scene::new("layout", LONG);
    let mut keeper = Keeper::new(&scene);
    keeper.renew(LONG_MS);
    let before = (
        scene.maps().lease().unwrap(),
        scene.maps().assignment().unwrap(),
    );
    let guards = scene.fence().entries().unwrap();
    let own = Stream::start(&scene, scene.netns(), Some(OWN));
    let stale = Stream::start(&scene, scene.netns(), Some(STALE));
    own.wait_for(100);

    fs::rename(scene.pins(), scene.node().pin_dir().join("v0")).unwrap();
    let mut kernel = scene.kernel();
    scene
        .netns()
        .enter(|| kernel.replace_programs())
        .unwrap()
        .unwrap();
    assert_eq!(scene.fence().entries().unwrap(), guards);
    assert_eq!(guards[&OWN.into()], Guard::Own);
    assert_eq!(scene.maps().assignment().unwrap(), before.1);
    assert_eq!(scene.maps().lease().unwrap(), before.0);
    assert!(before.0.is_held(boot_now()));
    let fenced = scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
    assert_eq!(fenced.displaced_by, None);
    own.wait_for(100);
    let (sent, arrived) = own.finish();
    assert_eq!(arrived.len() as u64, sent);
    assert!(stale.finish().1.is_empty());
    // The lease goes on in the new maps.
    keeper.renew(LONG_MS);
    assert_eq!(
        scene.maps().lease().unwrap().renewals,
        before.0.renewals + 1
    );
}
