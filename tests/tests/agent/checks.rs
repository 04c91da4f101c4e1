//! Local checks, as probers see them.

use std::net::TcpListener;

use probe_ebpf::wire::probe::{AGENT_UP, LOCAL_CHECKS_OK};
use pulsepath_tests::eventually;

use crate::subject::{SOON, inspect, metrics, one_node, prober, start};

const CHECK: &str = "checks = [{ name = 'cni', kind = 'tcp', target = '127.0.0.1:7777', \
                     period = '50ms', timeout = '100ms' }]";

#[test]
fn a_failing_check_takes_the_agent_down_and_nothing_else() {
    let cluster = one_node("check");
    let node = cluster.node(1);
    let listen = || {
        node.netns()
            .enter(|| TcpListener::bind("127.0.0.1:7777"))
            .unwrap()
            .unwrap()
    };
    let listener = listen();
    let _agent = start(node, CHECK);
    let mut prober = prober(&cluster);
    let both = AGENT_UP | LOCAL_CHECKS_OK;
    eventually(SOON, || {
        prober
            .ask()
            .filter(|reply| reply.answer.flags & both == both)
    });
    assert!(metrics(node).contains("pulsepath_local_check_up{name=\"cni\"} 1"));

    drop(listener);
    eventually(SOON, || {
        prober.ask().filter(|reply| reply.answer.flags & both == 0)
    });
    assert_eq!(inspect(node)["agent"]["checks"], "failing");
    assert!(metrics(node).contains("pulsepath_local_check_up{name=\"cni\"} 0"));

    let _again = listen();
    eventually(SOON, || {
        prober
            .ask()
            .filter(|reply| reply.answer.flags & both == both)
    });
}
