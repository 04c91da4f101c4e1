use super::*;

fn egress_ip(address: &str) -> EgressIp {
    EgressIp {
        gateway: "web".to_owned(),
        address: address.parse().unwrap(),
        claim: Claim::Failover,
        sources: vec!["10.1.0.0/16".parse().unwrap(), "fd01::/64".parse().unwrap()],
        interface: Some("eth1".to_owned()),
        routed: true,
    }
}

fn push() -> Push {
    Push {
        incarnation: Some(0xfeed),
        desired: Desired {
            epoch: (3 << 32) + 7,
            addresses: vec![
                egress_ip("10.78.0.100"),
                EgressIp {
                    claim: Claim::First,
                    interface: None,
                    ..egress_ip("fd78::100")
                },
            ],
            lease_ms: 10_000,
            witnesses: Some(WitnessSet {
                version: 4,
                instances: vec![9, u64::MAX, 3],
            }),
            gateways: vec![Gateway {
                name: "web".to_owned(),
                egress_ips: vec!["10.78.0.100/31".parse().unwrap()],
                sources: vec!["10.1.0.0/16".parse().unwrap()],
                interface: None,
                routed: true,
            }],
        },
    }
}

fn key_push() -> KeyPush {
    KeyPush {
        term: 3,
        keys: vec![NodeKey::new(1, [1; 16]), NodeKey::new(65535, [2; 16])],
    }
}

fn key_refusal(change: impl FnOnce(&mut proto::ReplaceKeysRequest)) -> String {
    let mut request = proto::ReplaceKeysRequest::from(key_push());
    change(&mut request);
    KeyPush::try_from(request).unwrap_err().to_string()
}

fn refusal(change: impl FnOnce(&mut proto::ApplyRequest)) -> String {
    let mut request = proto::ApplyRequest::from(push());
    change(&mut request);
    Push::try_from(request).unwrap_err().to_string()
}

#[test]
fn a_push_arrives_as_it_was_sent() {
    let request = proto::ApplyRequest::from(push());
    assert_eq!(Push::try_from(request), Ok(push()));
}

#[test]
fn keys_arrive_as_they_were_sent() {
    let request = proto::ReplaceKeysRequest::from(key_push());
    assert_eq!(KeyPush::try_from(request), Ok(key_push()));
}

#[test]
fn a_report_arrives_as_it_was_sent() {
    let states = [
        AddressState::Configured,
        AddressState::Announced,
        AddressState::Duplicate {
            mac: [2, 0, 0, 0, 0, 9],
        },
        AddressState::Failed {
            error: "no interface".to_owned(),
        },
    ];
    let report = |(host, state)| AddressReport {
        address: IpAddr::from([10, 78, 0, host]),
        state,
    };
    let report = Report {
        applied_epoch: 9,
        incarnation: 0xfeed,
        addresses: (1..).zip(states).map(report).collect(),
        not_fenced: vec!["eth0 is not fenced".to_owned()],
        witness_version: 4,
    };
    let sent = proto::ApplyReport::from(report.clone());
    assert_eq!(Report::try_from(sent), Ok(report));
}

#[test]
fn what_is_malformed_is_named() {
    let error = refusal(|request| request.egress_ips[0].address = "10.78.0".to_owned());
    assert_eq!(error, "\"10.78.0\" is not an IP address");
    let error = refusal(|request| request.egress_ips[0].sources[0] = "10.1/33".to_owned());
    assert!(error.contains("10.78.0.100: source \"10.1/33\""), "{error}");
    let error = refusal(|request| request.egress_ips[1].claim = 9);
    assert_eq!(error, "egress IP fd78::100: claim 9 is not known");
    let error = refusal(|request| request.egress_ips[1].claim = 0);
    assert_eq!(error, "egress IP fd78::100: claim 0 is not known");
    let error = refusal(|request| request.gateways[0].sources[0] = "10.1/33".to_owned());
    assert!(error.contains("gateway web: \"10.1/33\""), "{error}");
    let error = key_refusal(|request| request.keys[1].id = 65536);
    assert_eq!(error, "probe key: id 65536 is above 65535");
    let error = key_refusal(|request| request.keys[0].secret.truncate(15));
    assert_eq!(error, "probe key 1: a key has 16 bytes, not 15");
    for instances in [&[0][..], &[5, 6, 5], &[1, 2, 3, 4, 5, 6, 7, 8]] {
        let error = refusal(|request| {
            request.witnesses.as_mut().unwrap().instances = instances.to_vec();
        });
        assert!(error.starts_with("witnesses ["), "{error}");
    }
}

#[test]
fn an_address_that_is_listed_twice_is_refused() {
    let error = refusal(|request| {
        let again = request.egress_ips[0].clone();
        request.egress_ips.push(again);
    });
    assert_eq!(error, "address 10.78.0.100 is listed twice");
}

#[test]
fn an_unknown_incarnation_travels_as_zero() {
    let unknown = Push {
        incarnation: None,
        ..push()
    };
    let request = proto::ApplyRequest::from(unknown.clone());
    assert_eq!(request.incarnation, 0);
    assert_eq!(Push::try_from(request), Ok(unknown));
}

#[test]
fn a_message_that_is_printed_shows_no_key() {
    let request = proto::ReplaceKeysRequest::from(key_push());
    let shown = format!("{:?} {request:?}", key_push());
    assert!(shown.contains("ProbeKey { id: 1, .. }"), "{shown}");
    assert!(!shown.contains("1, 1, 1"), "{shown}");
}
