//! Removing everything.

use crate::bpf::names;
use crate::probe::Prober;
use crate::subject::{SOON, agent, one_node, prober, start, wait_for_answer};

#[test]
fn detach_says_what_it_removes_and_leaves_nothing() {
    let cluster = one_node("detach");
    let node = cluster.node(1);
    start(node, "").terminate().unwrap();
    let mut prober = prober(&cluster);
    wait_for_answer(&mut prober);
    let pins = names(&node.pin_dir().join("v1"));
    let said = agent(node, &["detach"]).unwrap();
    for name in pins {
        assert!(
            said.contains(&format!("/v1/{name}\n")),
            "{name} is not in {said}"
        );
    }
    assert!(!node.pin_dir().exists());
    assert!(prober.ask().is_none());
    assert!(
        !node
            .netns()
            .ip("-details link show eth0")
            .unwrap()
            .contains("xdp")
    );
    let again = agent(node, &["detach"]).unwrap();
    assert!(again.contains("nothing is pinned"), "{again}");
}

#[test]
fn detach_respects_an_agent_that_runs_unless_it_is_forced() {
    let cluster = one_node("force");
    let node = cluster.node(1);
    let mut running = start(node, "");
    let refused = agent(node, &["detach"]).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("(process {})", running.id())),
        "{refused}"
    );
    let mut prober = Prober::new(cluster.hub(), node, node.ipv4());
    assert!(prober.ask().is_some());
    agent(node, &["detach", "--force"]).unwrap();
    assert!(prober.ask().is_none());
    // The agent does not go on beating into maps that nobody reads.
    let status = running.wait(2 * SOON).unwrap();
    assert!(!status.success());
    assert!(
        running
            .log()
            .contains("have been removed while this agent ran"),
        "{}",
        running.log()
    );
}
