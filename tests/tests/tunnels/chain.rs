//! Among the programs on a device: first, but for the fence.

use aya::programs::{SchedClassifier, TcAttachType};
use nix::net::if_::if_nametoindex;
use probe_ebpf::testing::tunnel_config;
use probe_user::interfaces::Interface;
use probe_user::kernel::{Kernel, LoadOptions, TcSetting};

use crate::scene::Scene;

/// ARPHRD_ETHER.
const ETHERNET: u16 = 1;

/// Puts the fence and the counters on n1's `eth0` in this order, and returns the programs there.
fn egress_chain(purpose: &str, fence_first: bool) -> Vec<String> {
    let scene = Scene::new(purpose, 1);
    let node = scene.node(1);
    let put = || {
        let options = LoadOptions {
            tunnel_peers: Some(100),
            ..LoadOptions::default()
        };
        let mut kernel = Kernel::open(node.pin_dir(), options).unwrap();
        let devices = [Interface {
            name: "eth0".to_owned(),
            index: if_nametoindex("eth0").unwrap(),
            link_type: ETHERNET,
            ..Interface::default()
        }];
        for fence in [fence_first, !fence_first] {
            if fence {
                let fenced = kernel.fence(&devices, TcSetting::Tcx).unwrap();
                assert!(fenced[0].is_ok(), "{fenced:?}");
            } else {
                let counted = kernel
                    .count_tunnels(&devices, None, tunnel_config(false), TcSetting::Tcx)
                    .unwrap();
                assert!(counted[0].is_ok(), "{counted:?}");
            }
        }
        let fenced = kernel.fence(&devices, TcSetting::Tcx).unwrap();
        assert_eq!(fenced[0].as_ref().unwrap().displaced_by, None);
        let (_, chain) = SchedClassifier::query_tcx("eth0", TcAttachType::Egress).unwrap();
        let name = |program: &aya::programs::ProgramInfo| program.name_as_str().map(str::to_owned);
        chain.iter().filter_map(name).collect()
    };
    node.netns().enter(put).unwrap()
}

#[test]
fn what_is_sent_is_counted_behind_the_fence_whichever_came_first() {
    assert_eq!(egress_chain("fenced", true), ["fence", "tunnel_out"]);
    assert_eq!(egress_chain("counted", false), ["fence", "tunnel_out"]);
}
