//! The agent's own process: it is killed, asked, and detached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use controller::channel::{AgentPool, Outcome};
use probe_user::channel::{Push, Report, Security};
use probe_user::egress::Desired;
use pulsepath_tests::{Cluster, Process, Signal, bin_dir, eventually, run};
use serde_json::Value;

use crate::pings::pings;
use crate::scene::{SOON, first};

/// In the subnet of the nodes' `eth0`.
const ADDRESS: &str = "10.77.0.100";

fn start(cluster: &Cluster) -> Process {
    let node = cluster.node(1);
    let settings = "control.plaintext = true";
    let agent = node.spawn_agent(&node.agent_config(settings)).unwrap();
    eventually(SOON, || {
        node.agent_http("/ready")
            .is_ok_and(|answer| answer.status == 200)
    });
    agent
}

fn push(cluster: &Cluster, epoch: u64, addresses: &[&str]) -> Report {
    let push = Push {
        desired: Desired {
            epoch,
            addresses: addresses.iter().copied().map(first).collect(),
            gateways: Vec::new(),
            lease_ms: 0,
            witnesses: None,
        },
        incarnation: None,
    };
    let agent = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9862);
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut pool, mut answers) = AgentPool::new(Security::Plaintext);
            pool.set_desired("n1", vec![agent], push);
            match answers.recv().await.unwrap().outcome {
                Outcome::Done(report) => report,
                Outcome::Failed(failure) => panic!("{failure}"),
            }
        })
    };
    cluster.node(1).netns().enter(ask).unwrap()
}

fn agent(cluster: &Cluster, arguments: &[&str]) -> String {
    let node = cluster.node(1);
    let mut command = node
        .netns()
        .command(bin_dir().unwrap().join("pulsepath-agent"));
    command.args(arguments).arg("--pin-dir").arg(node.pin_dir());
    run(command.arg("--state-file").arg(node.agent_state_file())).unwrap()
}

fn inspect(cluster: &Cluster) -> Value {
    serde_json::from_str(&agent(cluster, &["inspect", "-o", "json"])).unwrap()
}

fn metric(cluster: &Cluster, name: &str) -> Option<f64> {
    let metrics = cluster.node(1).agent_http("/metrics").ok()?.body;
    let line = metrics.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn an_agent_that_was_killed_finds_its_addresses_again_and_does_not_touch_them() {
    let cluster = Cluster::new("r-kill", 1).unwrap();
    let mut killed = start(&cluster);
    let report = push(&cluster, 5, &[ADDRESS]);
    assert_eq!(report.applied_epoch, 5);
    assert_eq!(inspect(&cluster)["node"]["applied_epoch"], 5);
    killed.signal(Signal::SIGKILL).unwrap();
    killed.wait(SOON).unwrap();
    assert!(pings(cluster.hub(), ADDRESS));
    let _agent = start(&cluster);
    assert!(pings(cluster.hub(), ADDRESS));
    let announced = format!("pulsepath_egress_ip_state{{ip=\"{ADDRESS}\",state=\"announced\"}}");
    eventually(SOON, || metric(&cluster, &announced));
    assert_eq!(
        metric(&cluster, "pulsepath_egress_ips_claimed_total"),
        Some(0.0)
    );
    assert_eq!(
        metric(&cluster, "pulsepath_egress_ips_released_total"),
        Some(0.0)
    );
    assert_eq!(
        metric(&cluster, "pulsepath_egress_applied_epoch"),
        Some(5.0)
    );
}

#[test]
fn inspect_lists_egress_ips_and_detach_takes_them_off() {
    let cluster = Cluster::new("r-detach", 1).unwrap();
    let mut agent_process = start(&cluster);
    push(&cluster, 1, &[ADDRESS]);
    let found = &inspect(&cluster)["egress_ips"][ADDRESS];
    assert_eq!(
        (&found["interfaces"][0], &found["gateway"]),
        (&"eth0".into(), &"g".into())
    );
    assert!(agent(&cluster, &["inspect"]).contains(ADDRESS));
    agent_process.signal(Signal::SIGTERM).unwrap();
    agent_process.wait(SOON).unwrap();
    assert!(pings(cluster.hub(), ADDRESS), "stopping takes nothing away");
    let said = agent(&cluster, &["detach"]);
    assert!(
        said.contains(&format!("removed egress IP {ADDRESS} from eth0")),
        "{said}"
    );
    assert!(!pings(cluster.hub(), ADDRESS));
    assert!(!cluster.node(1).agent_state_file().exists());
}

#[test]
fn an_egress_ip_on_the_management_interface_is_no_management_address() {
    let cluster = Cluster::new("r-own", 1).unwrap();
    let mut first_agent = start(&cluster);
    push(&cluster, 1, &[ADDRESS]);
    first_agent.signal(Signal::SIGKILL).unwrap();
    first_agent.wait(SOON).unwrap();
    // It finds the address on the interface when it starts.
    let _agent = start(&cluster);
    assert!(pings(cluster.hub(), ADDRESS));
    let addresses = inspect(&cluster)["node"]["addresses"].clone();
    let own = cluster.node(1).ipv4().to_string();
    let has = |address: &str| addresses.as_array().unwrap().contains(&address.into());
    assert!(has(&own) && !has(ADDRESS), "{addresses}");
}
