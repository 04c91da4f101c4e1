//! Other programs on the same device.

use std::fs;
use std::time::Duration;

use aya::Ebpf;
use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, SchedClassifier};
use probe_user::kernel::{FenceHook, TcSetting};

use crate::keeper::Keeper;
use crate::scene::{OWN, Scene};

const LIMIT: Duration = Duration::from_secs(60);
const OBJECT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/bpf/pulsepath-bench.o"
);

/// A program that lets everything out, at the head of the device's chain. It goes when dropped.
fn intruder(scene: &Scene) -> Ebpf {
    let mut object = Ebpf::load(&fs::read(OBJECT).unwrap()).unwrap();
    let accept: &mut SchedClassifier = object.program_mut("accept").unwrap().try_into().unwrap();
    accept.load().unwrap();
    let first = TcAttachOptions::TcxOrder(LinkOrder::first());
    let attach = || accept.attach_with_options("eth0", TcAttachType::Egress, first);
    scene.netns().enter(attach).unwrap().unwrap();
    object
}

#[test]
fn a_program_that_was_put_ahead_is_noticed_and_loses_its_place() {
    let scene = Scene::new("ahead", LIMIT);
    assert!(scene.status()[0].is_ok());
    let _intruder = intruder(&scene);
    assert!(scene.answers(OWN), "the fence is not reached: it leaks");
    let not_fenced = scene.status().remove(0).unwrap_err();
    assert_eq!(not_fenced.device, "eth0");
    assert!(not_fenced.reason.contains("`accept`"), "{not_fenced}");

    let mut kernel = scene.kernel();
    let fenced = scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
    let displaced_by = fenced.displaced_by.unwrap();
    assert!(displaced_by.contains("`accept`"), "{displaced_by}");
    assert!(!scene.answers(OWN));
    assert!(scene.status()[0].is_ok());
    let again = scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
    assert_eq!(again.displaced_by, None, "nothing to do any more");
    assert_eq!(scene.status().len(), 1, "and one fence only");
}

#[test]
fn a_fence_that_was_killed_while_it_moved_to_the_head_ends_there() {
    let scene = Scene::new("cut", LIMIT);
    let link = scene
        .pins()
        .join(format!("link_{}_fence", scene.index("eth0")));
    let new = link.with_file_name(format!("link_{}_fence_new", scene.index("eth0")));
    // As if the new link were in place and the old one gone.
    fs::rename(&link, &new).unwrap();
    assert!(scene.status()[0].is_ok());
    let mut kernel = scene.kernel();
    scene.put(&mut kernel, "eth0", TcSetting::Auto).unwrap();
    assert!(link.exists() && !new.exists());
    assert!(!scene.answers(OWN));
}

#[test]
fn a_program_behind_the_fence_still_decides() {
    let scene = Scene::new("behind", LIMIT);
    let _keeping = Keeper::new(&scene).keep(60_000);
    assert!(scene.answers(OWN));
    let tc = |arguments: &str, last: Option<&str>| {
        let mut tc = scene.netns().command("tc");
        tc.args(arguments.split(' ')).args(last);
        pulsepath_tests::run(&mut tc).unwrap();
    };
    tc("qdisc add dev eth0 clsact", None);
    // "Return TC_ACT_SHOT".
    let shot = Some("1,6 0 0 2,");
    tc("filter add dev eth0 egress bpf da bytecode", shot);
    assert!(!scene.answers(scene.node().ipv4()));
}

#[test]
fn without_tcx_a_filter_is_the_fence() {
    let scene = Scene::unfenced("clsact");
    let mut fence = scene.fence();
    fence
        .guard(OWN.into(), probe_ebpf::maps::Guard::Own)
        .unwrap();
    scene.maps().set_lease_limit(60_000).unwrap();
    assert!(scene.answers(OWN), "not fenced yet");
    let mut kernel = scene.kernel();
    let fenced = scene.put(&mut kernel, "eth0", TcSetting::Clsact).unwrap();
    assert_eq!(fenced.hook, FenceHook::Clsact);
    drop(kernel);
    assert!(!scene.answers(OWN), "and it outlives its maker");
    assert_eq!(scene.status(), [Ok(fenced)]);

    let mut kernel = scene.kernel();
    let replaced = scene.netns().enter(|| kernel.replace_programs()).unwrap();
    assert_eq!(replaced.unwrap(), 3, "two reflectors and the filter");
    assert!(!scene.answers(OWN));
    let _keeping = Keeper::new(&scene).keep(60_000);
    assert!(scene.answers(OWN));
}

#[test]
fn tcx_takes_over_from_a_filter() {
    let scene = Scene::new("takeover", LIMIT);
    let mut kernel = scene.kernel();
    for (setting, hook) in [
        (TcSetting::Clsact, FenceHook::Clsact),
        (TcSetting::Auto, FenceHook::Tcx),
        (TcSetting::Clsact, FenceHook::Clsact),
    ] {
        let fenced = scene.put(&mut kernel, "eth0", setting).unwrap();
        assert_eq!(fenced.hook, hook);
        assert_eq!(scene.status(), [Ok(fenced)], "one or the other");
        assert!(!scene.answers(OWN));
    }
}

#[test]
fn a_program_ahead_of_a_filter_is_told() {
    let scene = Scene::unfenced("tcxahead");
    let _intruder = intruder(&scene);
    let mut kernel = scene.kernel();
    let not_fenced = scene
        .put(&mut kernel, "eth0", TcSetting::Clsact)
        .unwrap_err();
    assert!(not_fenced.reason.contains("`accept`"), "{not_fenced}");
}
