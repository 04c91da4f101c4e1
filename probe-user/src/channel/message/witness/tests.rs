use super::*;
use crate::keys::{MalformedKey, NodeKey};

fn watched(node: &str) -> Watched {
    let keys = vec![NodeKey::new(1, [1; 16]), NodeKey::new(2, [2; 16])];
    Watched {
        keys: NodeKeys::new(node, keys).unwrap(),
        addresses: vec!["10.77.0.1".parse().unwrap(), "fd77::1".parse().unwrap()],
        floor: (2 << 32) + 1,
        vote: true,
    }
}

fn duty() -> Duty {
    let other = Watched {
        vote: false,
        ..watched("n2")
    };
    Duty {
        version: (3 << 32) + 7,
        instance: Some(0xfeed),
        watched: vec![watched("n1"), other],
        period: Duration::from_millis(200),
        lease: Duration::from_millis(1_400),
        port: 862,
    }
}

fn refusal(change: impl FnOnce(&mut proto::WitnessRequest)) -> Malformed {
    let mut request = proto::WitnessRequest::from(duty());
    change(&mut request);
    Duty::try_from(request).unwrap_err()
}

#[test]
fn a_duty_arrives_as_it_was_sent() {
    let request = proto::WitnessRequest::from(duty());
    assert_eq!(Duty::try_from(request), Ok(duty()));
    let whichever = Duty {
        instance: None,
        ..duty()
    };
    let request = proto::WitnessRequest::from(whichever.clone());
    assert_eq!(request.instance, 0);
    assert_eq!(Duty::try_from(request), Ok(whichever));
}

#[test]
fn a_report_arrives_as_it_was_sent_save_parts_of_milliseconds() {
    let silent = Heard {
        node: "n2".to_owned(),
        ..Heard::default()
    };
    let heard = Heard {
        node: "n1".to_owned(),
        floor: 5,
        heard_ago: Some(Duration::from_micros(41_999)),
        agent_up: true,
        lease_held: true,
        voted_ago: Some(Duration::ZERO),
        incarnation: 0xfeed,
    };
    let report = |heard| WitnessReport {
        instance: 9,
        heard: vec![heard, silent.clone()],
    };
    let sent = proto::WitnessReport::from(report(heard.clone()));
    let rounded = Heard {
        heard_ago: Some(Duration::from_millis(41)),
        ..heard
    };
    assert_eq!(WitnessReport::from(sent), report(rounded));
}

#[test]
fn a_question_and_its_answer_arrive_as_they_were_sent() {
    let question = Question {
        watched: watched("n1"),
        wait: Duration::from_millis(500),
        max_age: Duration::from_millis(250),
        port: 862,
    };
    let request = proto::AskRequest::from(question.clone());
    assert_eq!(Question::try_from(request), Ok(question));
    for instance in [None, Some(9)] {
        let heard = Heard::default();
        let report = AskReport { instance, heard };
        let sent = proto::AskReport::from(report.clone());
        assert_eq!(AskReport::try_from(sent), Ok(report));
    }
}

#[test]
fn a_question_waits_for_a_minute_at_most() {
    let request = proto::AskRequest {
        node: Some(watched("n1").into()),
        wait_ms: u32::MAX,
        max_age_ms: 0,
        port: 862,
    };
    assert_eq!(Question::try_from(request).unwrap().wait, LONGEST_WAIT);
}

#[test]
fn what_is_malformed_is_named() {
    let node = "n1".to_owned();
    let error = refusal(|request| request.nodes[1].node = node.clone());
    assert_eq!(error, Malformed::NodeTwice { node: node.clone() });
    let error = refusal(|request| request.nodes[0].keys.clear());
    let source = MalformedKey::Empty;
    assert_eq!(error, Malformed::Keys { node, source });
    let error = refusal(|request| request.period_ms = 9);
    assert_eq!(error.to_string(), "period_ms 9 is not within 10 to 60000");
    let error = refusal(|request| request.port = 65_536);
    assert_eq!(error.to_string(), "port 65536 is not within 1 to 65535");
    let error = refusal(|request| request.nodes[0].addresses[0] = "n1".to_owned());
    assert_eq!(error.to_string(), "\"n1\" is not an IP address");
}
