//! Answering whether this node hears another one.

use std::time::{Duration, Instant};

use super::core::Witness;
use super::error::AskError;
use super::slot::Slot;
use crate::channel::{AskReport, Heard, Question};
use crate::session::{ProbeSettings, TargetId};

/// Names a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(u64);

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    id: QuestionId,
    node: String,
    pub(super) target: TargetId,
    asked: Instant,
    max_age: Duration,
    pub(super) deadline: Instant,
}

impl Witness {
    /// Takes a question. Its answer comes with [`poll_answer`](Self::poll_answer), perhaps at once.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask(&mut self, now: Instant, question: &Question) -> Result<QuestionId, AskError> {
        let node = question.watched.node();
        if self.is_own(node) {
            let node = node.to_owned();
            return Err(AskError::Itself { node });
        }
        let target = self.listen(now, question)?;
        let id = QuestionId(self.next_question);
        self.next_question += 1;
        self.questions.push(Pending {
            id,
            node: node.to_owned(),
            target,
            asked: now,
            max_age: question.max_age,
            deadline: now + question.wait,
        });
        self.answer_questions(now);
        Ok(id)
    }

    /// Sees to it that the node is probed.
    fn listen(&mut self, now: Instant, question: &Question) -> Result<TargetId, AskError> {
        let (watched, port) = (&question.watched, question.port);
        let known = self.find(watched.node());
        let is_duty = |id: &TargetId| self.slots.get(id).is_some_and(|slot| slot.is_duty);
        if let Some(id) = known.filter(is_duty) {
            return Ok(id);
        }
        let present = *self.prober.settings();
        if present.port != port && !self.slots.is_empty() {
            let present = present.port;
            return Err(AskError::OtherPort { port, present });
        }
        self.pace(now, ProbeSettings { port, ..present });
        let id = known.unwrap_or_else(|| self.add(Slot::new(now, watched, false)));
        if let Some(slot) = self.slots.get_mut(&id) {
            // Whoever asks last knows best where the node is, and by which key.
            slot.watched = watched.clone();
        }
        self.probe(now, id);
        if let Some(source) = self.slots.get(&id).and_then(|slot| slot.not_probed) {
            self.drop_unwanted();
            let node = watched.node().to_owned();
            return Err(AskError::NotProbed { node, source });
        }
        self.prober.probe_now(now, id);
        Ok(id)
    }

    /// Answers questions about nodes that have been heard, and those whose time is over.
    pub(super) fn answer_questions(&mut self, now: Instant) {
        let before = self.questions.len();
        for question in std::mem::take(&mut self.questions) {
            let slot = self.slots.get(&question.target);
            let said = slot.and_then(|slot| slot.said);
            let is_heard = said.is_some_and(|said| {
                question.asked.saturating_duration_since(said.at) <= question.max_age
            });
            if !is_heard && now < question.deadline {
                self.questions.push(question);
                continue;
            }
            let nothing = || Heard {
                node: question.node.clone(),
                ..Heard::default()
            };
            let report = AskReport {
                instance: self.instance(),
                heard: slot.map_or_else(nothing, |slot| self.heard(now, slot)),
            };
            self.answers.push_back((question.id, report));
        }
        if self.questions.len() < before {
            self.drop_unwanted();
        }
    }

    /// The next answer.
    pub fn poll_answer(&mut self) -> Option<(QuestionId, AskReport)> {
        self.answers.pop_front()
    }
}
