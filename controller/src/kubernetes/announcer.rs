//! Tells people by Events: of nodes' transitions and of moves. Only whoever leads does.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use kube::runtime::events::{Event, Recorder, Reporter};
use probe_user::logging::in_words;
use tokio::sync::mpsc::UnboundedReceiver;

use super::patience::patiently;
use super::resources::EgressGateway;
use super::words::{self, About, Words};
use super::writers::{MANAGER, Writers};
use crate::api::State;
use crate::daemon::News;
use crate::monitor::Notice;

pub(super) struct Announcer {
    common: Writers,
    recorder: Recorder,
    /// Nodes of which something bad was said: that it is over is news.
    ailing: BTreeSet<String>,
}

impl Announcer {
    pub(super) fn new(common: Writers) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: Some(common.identity.clone()),
        };
        Self {
            recorder: Recorder::new(common.client.clone(), reporter),
            common,
            ailing: BTreeSet::new(),
        }
    }

    /// Until there is nothing more to tell.
    pub(super) async fn run(mut self, mut news: UnboundedReceiver<News>) {
        while let Some(news) = news.recv().await {
            let words = self.words(&news);
            if !self.common.egress.leads() {
                continue;
            }
            for words in words {
                self.publish(words).await;
            }
        }
    }

    /// What is said of it; a node's UNAVAILABLE is none before it was announced.
    fn words(&mut self, news: &News) -> Vec<Words> {
        match news {
            News::Egress(event) => words::of_event(event),
            News::Node(Notice::Transition(transition)) => {
                let node = &transition.node;
                match transition.to {
                    State::Unreachable => drop(self.ailing.insert(node.clone())),
                    // Whoever led before has said what it was back from.
                    State::Available => {
                        let ailing = self.ailing.remove(node);
                        if !ailing && transition.from != State::Unreachable {
                            return Vec::new();
                        }
                    }
                    State::Unavailable | State::Unknown => return Vec::new(),
                }
                words::of_transition(transition).into_iter().collect()
            }
            News::Node(notice) => {
                if let Notice::Announced { node, .. } = notice {
                    self.ailing.insert(node.clone());
                }
                words::of_notice(notice).into_iter().collect()
            }
        }
    }

    async fn publish(&self, words: Words) {
        let Some(object) = self.reference(&words.about) else {
            return;
        };
        let event = Event {
            type_: words.kind,
            reason: words.reason.to_owned(),
            note: Some(words.note),
            action: words.action,
            secondary: None,
        };
        let publish = self.recorder.publish(&event, &object);
        if let Err(error) = patiently("publish an event", publish).await {
            tracing::debug!(error = in_words(&error), "people are not told by an Event");
        }
    }

    fn reference(&self, about: &About) -> Option<ObjectReference> {
        let facts = self.common.facts.borrow();
        Some(match about {
            About::Node(name) => ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                uid: Some(facts.nodes.get(name)?.uid.clone()),
                name: Some(name.clone()),
                ..ObjectReference::default()
            },
            About::Gateway(name) => ObjectReference {
                api_version: Some(EgressGateway::api_version(&()).into_owned()),
                kind: Some(EgressGateway::kind(&()).into_owned()),
                uid: Some(facts.gateways.get(name)?.uid.clone()),
                name: Some(name.clone()),
                ..ObjectReference::default()
            },
        })
    }
}
