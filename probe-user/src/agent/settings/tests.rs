use super::*;

fn parse(text: &str) -> Result<(), String> {
    let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
    settings.validate().map_err(|invalid| invalid.to_string())
}

fn with_interface(text: &str) -> Result<(), String> {
    parse(&format!("management.interface = 'eth0'\n{text}"))
}

fn assert_refused(text: &str, parts: &[&str]) {
    let error = with_interface(text).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn an_interface_is_all_that_must_be_configured() {
    with_interface("").unwrap();
}

#[test]
fn management_without_interface_and_addresses_is_refused() {
    let error = parse("").unwrap_err();
    assert!(error.contains("management.interface"), "{error}");
}

#[test]
fn the_beat_timeout_is_at_least_two_periods() {
    with_interface("beat = { period = '100ms', timeout = '200ms' }").unwrap();
    assert_refused(
        "beat = { period = '100ms', timeout = '199ms' }",
        &["beat.timeout", "200ms"],
    );
    assert_refused(
        "beat.period = '9ms'",
        &["beat.period", "between 10ms and 1m"],
    );
}

#[test]
fn plain_protocols_need_sources() {
    assert_refused("stamp.enabled = true", &["stamp.sources"]);
    assert_refused(
        "sbfd = { enabled = true, discriminator = 7 }",
        &["sbfd.sources"],
    );
    assert_refused(
        "sbfd = { enabled = true, sources = ['10.0.0.0/8'] }",
        &["sbfd.discriminator"],
    );
}

#[test]
fn both_plain_protocols_share_one_list_of_sources() {
    let both = |sbfd: &str| {
        with_interface(&format!(
            "stamp = {{ enabled = true, sources = ['10.0.0.0/8'] }}
             sbfd = {{ enabled = true, discriminator = 7, sources = ['{sbfd}'] }}"
        ))
    };
    both("10.0.0.0/8").unwrap();
    assert!(both("10.1.0.0/16").unwrap_err().contains("sbfd.sources"));
}

#[test]
fn a_checks_target_has_the_form_of_its_kind() {
    let check = |kind: &str, target: &str| {
        with_interface(&format!(
            "checks = [{{ name = 'c', kind = '{kind}', target = '{target}' }}]"
        ))
    };
    for (kind, right, wrong) in [
        ("tcp", "127.0.0.1:80", "127.0.0.1"),
        ("http", "http://localhost/healthz", "https://localhost"),
        ("grpc", "localhost:50051/cni", "localhost"),
        ("unix", "/run/cni.sock", "cni.sock"),
    ] {
        check(kind, right).unwrap();
        let error = check(kind, wrong).unwrap_err();
        assert!(error.contains("checks[0].target"), "{error}");
    }
}

#[test]
fn checks_have_names_of_their_own() {
    let check = "{ name = 'cni', kind = 'tcp', target = 'localhost:1' }";
    assert_refused(&format!("checks = [{check}, {check}]"), &["checks[1].name"]);
}

#[test]
fn a_certificate_of_grpc_health_needs_its_key_and_the_other_way_round() {
    with_interface("grpc_health = { cert_file = 'a.crt', key_file = 'a.key' }").unwrap();
    assert_refused("grpc_health.cert_file = 'a.crt'", &["grpc_health.key_file"]);
    assert_refused("grpc_health.key_file = 'a.key'", &["grpc_health.cert_file"]);
}

#[test]
fn a_port_carries_one_kind_of_tunnel_and_there_is_room_for_sixteen() {
    with_interface("tunnels = { enabled = true, vxlan_ports = [4789], geneve_ports = [] }")
        .unwrap();
    assert_refused(
        "tunnels.geneve_ports = [4789]",
        &["tunnels.geneve_ports", "4789", "once"],
    );
    assert_refused("tunnels.vxlan_ports = [0]", &["tunnels.vxlan_ports", "0"]);
    let many: Vec<u16> = (1..16).collect();
    assert_refused(
        &format!("tunnels.vxlan_ports = {many:?}"),
        &["tunnels", "17 entries", "16"],
    );
    assert_refused("tunnels.max_peers = 63", &["tunnels.max_peers", "64"]);
}
