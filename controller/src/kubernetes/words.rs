//! What Events say.

use std::net::IpAddr;

use kube::runtime::events::EventType;
use probe_user::settings::HumanDuration;

use crate::api::{State, Transition};
use crate::failover::{Cause, Event};
use crate::monitor::Notice;

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A node.
    Node(String),
    /// A gateway.
    Gateway(String),
}

/// What an Event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) about: About,
    pub(super) kind: EventType,
    /// In one word.
    pub(super) reason: &'static str,
    /// What was done. Events that differ in nothing but their notes count as one that is repeated.
    pub(super) action: String,
    pub(super) note: String,
}

impl Words {
    fn bad(about: About, reason: &'static str, note: String) -> Self {
        let kind = EventType::Warning;
        Self {
            about,
            kind,
            reason,
            action: reason.to_owned(),
            note,
        }
    }

    fn good(about: About, reason: &'static str, note: String) -> Self {
        let kind = EventType::Normal;
        Self {
            about,
            kind,
            reason,
            action: reason.to_owned(),
            note,
        }
    }
}

/// Of a node's transition.
pub(super) fn of_transition(transition: &Transition) -> Option<Words> {
    let Transition { from, reason, .. } = transition;
    let about = About::Node(transition.node.clone());
    match transition.to {
        State::Unreachable => {
            let note = format!("the node was {from} and is UNREACHABLE: {reason}");
            Some(Words::bad(about, "DatapathUnreachable", note))
        }
        State::Available => {
            let note = format!("the node was {from} and is AVAILABLE");
            Some(Words::good(about, "DatapathAvailable", note))
        }
        State::Unavailable | State::Unknown => None,
    }
}

/// Of whatever else is noticed about a node.
pub(super) fn of_notice(notice: &Notice) -> Option<Words> {
    let about = |node: &String| About::Node(node.clone());
    Some(match notice {
        Notice::Announced { node, .. } => {
            let note = "the node's dataplane works, its agent is silent: nothing new goes there";
            Words::bad(about(node), "AgentSilent", note.to_owned())
        }
        Notice::PathDown { node, by, .. } => {
            let note = format!("only others hear the node: {}", by.join(", "));
            Words::bad(about(node), "ControllerPathDown", note)
        }
        Notice::OnlyTunnels { node, by, .. } => {
            let note = format!(
                "nobody hears the node, but its tunnels reach {by}: it keeps its state for one more \
                 timeout at most"
            );
            Words::bad(about(node), "TunnelsOnly", note)
        }
        Notice::PathBack { node, .. } => {
            let note = "the controller hears the node again".to_owned();
            Words::good(about(node), "ControllerPathBack", note)
        }
        Notice::Reincarnated { node, .. } => {
            let note = "the node's kernel began anew: it was rebooted, or detached".to_owned();
            Words::bad(about(node), "DatapathRestarted", note)
        }
        Notice::NotProbed { node, error } => {
            let note = format!("the node is not probed as configured: {error}");
            Words::bad(about(node), "NotProbed", note)
        }
        Notice::Transition(_) | Notice::Settled => return None,
    })
}

fn of_move(
    about: About,
    address: IpAddr,
    from: Option<&str>,
    to: Option<&str>,
    cause: Option<Cause>,
) -> Words {
    let why = cause.map_or(String::new(), |cause| format!(" ({cause})"));
    let words = match (from, to) {
        (Some(from), Some(to)) => {
            let note = format!("{address} moved from {from} to {to}{why}");
            Words::bad(about, "EgressIPMoved", note)
        }
        (None, Some(to)) => Words::good(
            about,
            "EgressIPAssigned",
            format!("{address} belongs to {to}"),
        ),
        (_, None) => {
            let note = format!("{address} has no owner{why}");
            Words::bad(about, "EgressIPUnassigned", note)
        }
    };
    let action = match to {
        Some(to) => format!("Assign {address} to {to}"),
        None => format!("Unassign {address}"),
    };
    Words { action, ..words }
}

/// Of egress IPs.
pub(super) fn of_event(event: &Event) -> Vec<Words> {
    match event {
        Event::Moved {
            gateway,
            address,
            from,
            to,
            cause,
        } => {
            let about = About::Gateway(gateway.clone());
            vec![of_move(
                about,
                *address,
                from.as_deref(),
                to.as_deref(),
                *cause,
            )]
        }
        Event::Aborted {
            gateway,
            address,
            node,
        } => {
            let note = format!("{address} stays with {node}, which is fit again");
            let about = About::Gateway(gateway.clone());
            vec![Words::good(about, "EgressIPStays", note)]
        }
        Event::Damped { node, hold } => {
            let hold = HumanDuration(*hold);
            let note = format!("the node falls too often: no egress IP until AVAILABLE for {hold}");
            vec![Words::bad(About::Node(node.to_string()), "Damped", note)]
        }
        Event::Released { node } => {
            let note = "the node may get egress IPs again".to_owned();
            vec![Words::good(
                About::Node(node.to_string()),
                "DampingOver",
                note,
            )]
        }
        // They are about no object: the log and the metrics have them.
        Event::Completed { .. } | Event::Held { .. } | Event::Resumed => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(from: Option<&str>, to: Option<&str>, address: &str) -> Words {
        let event = Event::Moved {
            gateway: "web".to_owned(),
            address: address.parse().unwrap(),
            from: from.map(Into::into),
            to: to.map(Into::into),
            cause: from.map(|_| Cause::Unreachable),
        };
        of_event(&event).remove(0)
    }

    #[test]
    fn a_move_away_from_a_lost_node_is_a_warning_and_a_first_placement_is_none() {
        let words = moved(Some("n1"), Some("n2"), "192.0.2.1");
        assert_eq!(words.kind, EventType::Warning);
        assert_eq!(words.note, "192.0.2.1 moved from n1 to n2 (Unreachable)");
        assert_eq!(words.about, About::Gateway("web".to_owned()));
        assert_eq!(moved(None, Some("n2"), "192.0.2.1").kind, EventType::Normal);
        assert_eq!(
            moved(Some("n1"), None, "192.0.2.1").kind,
            EventType::Warning
        );
    }

    #[test]
    fn moves_of_different_addresses_are_different_events() {
        let actions = ["192.0.2.1", "192.0.2.2"].map(|it| moved(None, Some("n1"), it).action);
        assert_ne!(actions[0], actions[1]);
    }
}
