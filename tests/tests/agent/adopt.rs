//! What an earlier agent left in the kernel is taken over.

use std::fs;
use std::time::{Duration, Instant};

use probe_ebpf::wire::probe::{AGENT_UP, DRAINING};
use pulsepath_tests::{Signal, eventually};

use crate::bpf::{dump, pins, set_entry};
use crate::probe::Prober;
use crate::subject::{
    SOON, attachment, inspect, one_node, prober, start, start_in_vain, wait_for_answer,
};

#[test]
fn a_restarted_agent_takes_over_without_losing_a_probe() {
    let cluster = one_node("adopt");
    let node = cluster.node(1);
    let mut first = start(node, "");
    let before = inspect(node);
    let stream = prober(&cluster).stream();
    first.kill().unwrap();
    let _second = start(node, "");
    let after = inspect(node);
    stream.assert_nothing_lost(100);
    assert_eq!(before["node"]["incarnation"], after["node"]["incarnation"]);
    for interface in ["eth0", "lo"] {
        let link = |report| attachment(report, interface).unwrap()["link_id"].clone();
        assert_eq!(link(&before), link(&after), "{interface}");
    }
}

#[test]
fn a_restarted_agent_puts_its_own_program_into_the_links() {
    let cluster = one_node("replace");
    let node = cluster.node(1);
    let programs = || -> Vec<u32> {
        let links = probe_user::kernel::scan_links(&pins(node)).unwrap();
        links.iter().map(|link| link.program_id).collect()
    };
    let mut first = start(node, "");
    let before = programs();
    first.terminate().unwrap();
    let _second = start(node, "");
    let after = programs();
    assert_eq!(before.len(), 2);
    assert!(
        before.iter().zip(&after).all(|(old, new)| old != new),
        "{before:?} {after:?}"
    );
}

#[test]
fn twenty_restarts_lose_nothing_at_1_khz_in_either_family() {
    let cluster = one_node("restarts");
    let node = cluster.node(1);
    let mut agent = start(node, "");
    let v4 = prober(&cluster).stream();
    let v6 = Prober::new(cluster.hub(), node, node.ipv6()).stream();
    for _ in 0..20 {
        agent.kill().unwrap();
        agent = start(node, "");
    }
    v4.assert_nothing_lost(1000);
    v6.assert_nothing_lost(1000);
}

#[test]
fn a_killed_agent_is_down_and_its_node_goes_on_answering() {
    let cluster = one_node("kill");
    let mut agent = start(cluster.node(1), "");
    let mut prober = prober(&cluster);
    eventually(SOON, || {
        prober
            .ask()
            .filter(|reply| reply.answer.flags & AGENT_UP != 0)
    });
    agent.kill().unwrap();
    let down = eventually(SOON, || {
        prober
            .ask()
            .filter(|reply| reply.answer.flags & AGENT_UP == 0)
    });
    assert_eq!(down.answer.flags & DRAINING, 0);
    assert!(down.answer.beat_age_ms >= 500, "{down:?}");
}

#[test]
fn sigterm_says_draining_and_leaves_everything_in_place() {
    let cluster = one_node("drain");
    let mut agent = start(cluster.node(1), "");
    let mut prober = prober(&cluster);
    wait_for_answer(&mut prober);
    let asked = Instant::now();
    agent.signal(Signal::SIGTERM).unwrap();
    let status = agent.wait(SOON).unwrap();
    assert!(status.success(), "{status}");
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    let reply = prober.ask().unwrap();
    assert_ne!(reply.answer.flags & DRAINING, 0);
    let _next = start(cluster.node(1), "");
    assert_eq!(prober.ask().unwrap().answer.flags & DRAINING, 0);
}

#[test]
fn a_second_agent_is_refused_and_the_first_goes_on() {
    let cluster = one_node("second");
    let node = cluster.node(1);
    let first = start(node, "");
    let said = start_in_vain(node, &node.agent_config("http.listen = '127.0.0.1:9999'"));
    assert!(
        said.contains(&format!("another pulsepath-agent (process {})", first.id())),
        "{said}"
    );
    assert!(said.contains(node.pin_dir().to_str().unwrap()), "{said}");
    assert!(prober(&cluster).ask().is_some());
}

#[test]
fn a_load_that_was_cut_short_is_finished_by_the_next_agent() {
    let cluster = one_node("half");
    let node = cluster.node(1);
    start(node, "").kill().unwrap();
    // As if the first agent had been killed before it attached, named or counted anything.
    for link in ["link_1_tcx", "reflect_tcx", "PROBERS"] {
        fs::remove_file(pins(node).join(link)).unwrap();
    }
    for link in probe_user::kernel::scan_links(&pins(node)).unwrap() {
        fs::remove_file(link.path).unwrap();
    }
    set_entry(&pins(node).join("ASSIGNMENT"), &[0; 32]);
    let _agent = start(node, "");
    let reply = wait_for_answer(&mut prober(&cluster));
    assert_ne!(reply.answer.incarnation, 0);
}

#[test]
fn a_pinned_map_of_another_size_is_refused_with_both_sizes() {
    let cluster = one_node("shape");
    let node = cluster.node(1);
    fs::create_dir_all(pins(node)).unwrap();
    crate::bpf::pin_array(&pins(node).join("AGENT_BEAT"), 24, &[0; 24]);
    let said = start_in_vain(node, &node.agent_config(""));
    for part in [
        "AGENT_BEAT",
        "value 24 bytes",
        "value 32 bytes",
        "pulsepath-agent detach",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(!pins(node).join("link_2_xdp").exists());
}

#[test]
fn every_counter_bears_its_name() {
    let cluster = one_node("names");
    let node = cluster.node(1);
    let _agent = start(node, "");
    let dump = dump(&pins(node).join("REFLECT_STATS"));
    for (index, outcome) in probe_ebpf::outcome::Outcome::ALL.iter().enumerate() {
        for cpu in dump[index]["formatted"]["values"].as_array().unwrap() {
            assert_eq!(cpu["value"]["outcome"], format!("{outcome:?}"));
        }
    }
}

#[test]
fn an_agent_killed_at_any_moment_of_its_start_is_followed_by_one_that_works() {
    let cluster = one_node("moment");
    let node = cluster.node(1);
    for delay in (0..60).step_by(3) {
        let mut agent = node.spawn_agent(&node.agent_config("")).unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        agent.kill().unwrap();
    }
    let _agent = start(node, "");
    let reply = wait_for_answer(&mut prober(&cluster));
    assert_ne!(reply.answer.incarnation, 0);
    assert_eq!(inspect(node)["attachments"].as_array().unwrap().len(), 2);
}
