//! What the chart makes, and what each switch changes about it.

use serde_json::{Value, json};

use crate::helm::{lint, render};

const MONITORING: [&str; 3] = [
    "monitoring.podMonitor.enabled=true",
    "monitoring.prometheusRule.enabled=true",
    "monitoring.dashboard.enabled=true",
];

#[test]
fn helm_finds_nothing_to_complain_about() {
    lint(&[]).unwrap();
    lint(&MONITORING).unwrap();
}

#[test]
fn agents_are_on_every_node_but_behind_taints_that_nobody_named() {
    let objects = render(&[]);
    let agent = objects.agent();
    assert_eq!(agent["hostNetwork"], true);
    assert_eq!(
        agent["nodeSelector"],
        json!({ "kubernetes.io/os": "linux" })
    );
    for toleration in agent["tolerations"].as_array().unwrap() {
        assert!(toleration["key"].is_string(), "{toleration}");
    }
}

#[test]
fn agents_hold_no_credential_of_the_cluster_and_not_its_key() {
    let objects = render(&[]);
    let agent = objects.agent();
    assert_eq!(agent["automountServiceAccountToken"], false);
    let account = objects.get("ServiceAccount", "pulsepath-agent");
    assert_eq!(account["automountServiceAccountToken"], false);
    assert!(!agent.to_string().contains("cluster-key"), "{agent}");
    for (kind, name) in objects.names() {
        let is_role = kind.contains("Role");
        assert!(
            !is_role || name.starts_with("pulsepath-controller"),
            "{kind} {name}"
        );
    }
}

#[test]
fn agents_are_privileged_or_have_what_they_need_one_by_one() {
    let security = |set: &[&str]| render(set).agent()["containers"][0]["securityContext"].clone();
    assert_eq!(security(&[])["privileged"], true);
    let limited = security(&["agent.securityContext.mode=capabilities"]);
    assert_eq!(limited["privileged"], false);
    assert_eq!(limited["capabilities"]["drop"], json!(["ALL"]));
    let granted = limited["capabilities"]["add"].as_array().unwrap();
    assert!(granted.contains(&json!("BPF")) && granted.contains(&json!("NET_ADMIN")));
}

#[test]
fn agents_learn_their_addresses_unless_they_are_told_where_probes_arrive() {
    let told = |set: &[&str]| {
        let objects = render(set);
        let env = &objects.agent()["containers"][0]["env"];
        env.to_string().contains("status.hostIPs")
    };
    assert!(told(&[]));
    assert!(!told(&["agent.settings.management.interface=ovn-k8s-mp0"]));
    assert!(!told(&["agent.settings.management.addresses={192.0.2.1}"]));
}

#[test]
fn two_controllers_are_on_two_nodes_and_not_evicted_together() {
    let objects = render(&[]);
    let deployment = &objects.get("Deployment", "pulsepath-controller")["spec"];
    assert_eq!(deployment["replicas"], 2);
    let spread = &objects.controller()["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(spread["whenUnsatisfiable"], "DoNotSchedule");
    let budget = objects.get("PodDisruptionBudget", "pulsepath-controller");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    let alone = render(&["controller.replicas=1"]);
    assert!(
        alone
            .find("PodDisruptionBudget", "pulsepath-controller")
            .is_none()
    );
}

#[test]
fn controllers_have_no_privilege() {
    let objects = render(&[]);
    let pod = objects.controller();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let security = &pod["containers"][0]["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
}

#[test]
fn pods_are_replaced_when_their_settings_change_and_only_then() {
    let sums = |set: &[&str]| {
        let objects = render(set);
        [
            "DaemonSet/pulsepath-agent",
            "Deployment/pulsepath-controller",
        ]
        .map(|object| {
            let (kind, name) = object.split_once('/').unwrap();
            let template = &objects.get(kind, name)["spec"]["template"];
            template["metadata"]["annotations"]["checksum/config"].clone()
        })
    };
    let [agent, controller] = sums(&[]);
    assert_eq!(sums(&["image.tag=v2"]), [agent.clone(), controller.clone()]);
    let changed = sums(&["controller.settings.timeout=2s"]);
    assert_eq!(changed[0], agent);
    assert_ne!(changed[1], controller);
}

#[test]
fn definitions_of_resources_are_kept_when_the_release_goes() {
    let name = "egressgateways.pulsepath.dev";
    let objects = render(&[]);
    let definition = objects.get("CustomResourceDefinition", name);
    let annotations = &definition["metadata"]["annotations"];
    assert_eq!(annotations["helm.sh/resource-policy"], "keep");
    let without = render(&["crds.install=false"]);
    assert!(without.find("CustomResourceDefinition", name).is_none());
}

#[test]
fn cleaning_up_stops_controllers_and_has_agents_detach() {
    let objects = render(&["cleanup=true"]);
    let deployment = objects.get("Deployment", "pulsepath-controller");
    assert_eq!(deployment["spec"]["replicas"], 0);
    let command = &objects.agent()["initContainers"][0]["command"];
    let words = command.as_array().unwrap();
    assert_eq!(words[..2], [json!("/pulsepath-agent"), json!("detach")]);
}

#[test]
fn controllers_in_a_network_of_their_own_can_be_shut_off_from_others() {
    let own = "controller.hostNetwork=false";
    let objects = render(&[own, "networkPolicy.enabled=true"]);
    assert_eq!(objects.controller()["hostNetwork"], Value::Null);
    let policy = &objects.get("NetworkPolicy", "pulsepath-controller")["spec"];
    assert_eq!(
        policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"],
        "controller"
    );
}

#[test]
fn a_controller_may_be_told_where_the_api_server_is() {
    let objects = render(&["controller.apiServer.host=192.0.2.5"]);
    let env = objects.controller()["containers"][0]["env"].to_string();
    assert!(env.contains("192.0.2.5") && env.contains("6443"), "{env}");
}

#[test]
fn images_come_from_the_users_registry_by_tag_or_digest() {
    let registry = "image.registry=registry.example.com/team/";
    let image = |set: &[&str]| render(set).agent()["containers"][0]["image"].clone();
    assert_eq!(
        image(&[registry, "image.tag=1.2"]),
        "registry.example.com/team/pulsepath-agent:1.2"
    );
    let digest = format!("sha256:{}", "0".repeat(64));
    assert_eq!(
        image(&[registry, &format!("agent.image.digest={digest}")]),
        format!("registry.example.com/team/pulsepath-agent@{digest}")
    );
}

#[test]
fn monitoring_is_there_when_it_is_asked_for() {
    let kinds = ["PodMonitor", "PrometheusRule"];
    let without = render(&[]);
    assert!(
        kinds
            .iter()
            .all(|kind| without.find(kind, "pulsepath").is_none())
    );
    let with = render(&MONITORING);
    assert!(
        kinds
            .iter()
            .all(|kind| with.find(kind, "pulsepath").is_some())
    );
    let dashboard = with.get("ConfigMap", "pulsepath-dashboard");
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
}
