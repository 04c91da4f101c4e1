//! What happens when a letter arrives.

use crate::{
    agent::{self, Job},
    letter::{Letter, Prober},
    rules::Rules,
    witness::Heard,
    world::World,
};

impl World {
    /// A letter arrives.
    pub(crate) fn deliver(&mut self, rules: Rules, letter: Letter) -> bool {
        match letter {
            Letter::Probe { from, to, request } => {
                let node = &mut self.nodes[to];
                let now = node.clock.read(self.now);
                if let Some(request) = request {
                    node.kernel.honour(rules, now, &request);
                }
                let incarnation = node.kernel.incarnation;
                self.letters.push(Letter::Reply {
                    to: from,
                    from: to,
                    incarnation,
                    time: now,
                });
            }
            Letter::Reply {
                to,
                from,
                incarnation,
                time,
            } => match to {
                Prober::Controller(index) => {
                    let controller = &mut self.controllers[index];
                    let at = controller.clock.read(self.now);
                    controller.handle_reply(
                        from,
                        Heard {
                            incarnation,
                            time,
                            at,
                        },
                    );
                }
                Prober::Witness(index) => {
                    let node = &mut self.nodes[index];
                    let at = node.clock.read(self.now);
                    node.witness.handle_reply(
                        from,
                        Heard {
                            incarnation,
                            time,
                            at,
                        },
                    );
                }
            },
            Letter::Ask {
                from,
                to,
                gateway,
                floor,
            } => {
                let node = &mut self.nodes[to.host()];
                let now = node.clock.read(self.now);
                let Some(promise) = node.witness.handle_ask(rules, now, to, gateway, floor) else {
                    return true;
                };
                self.letters.push(Letter::Promise {
                    to: from,
                    gateway,
                    promise,
                });
            }
            Letter::Promise {
                to,
                gateway,
                promise,
            } => {
                let controller = &mut self.controllers[to];
                controller.handle_promise(rules, controller.clock.read(self.now), gateway, promise);
            }
            Letter::Push {
                from,
                to,
                incarnation,
                assignment,
            } => {
                let node = &mut self.nodes[to];
                if agent::takes(rules, &node.kernel, incarnation, &assignment) {
                    node.job = Some(Job::new(from, assignment));
                }
            }
            Letter::Confirm {
                to,
                from,
                confirmed,
            } => {
                let controller = &mut self.controllers[to];
                controller.handle_confirmation(controller.clock.read(self.now), from, confirmed);
            }
            _ => self.deliver_to_store(rules, letter),
        }
        true
    }

    /// A request arrives at the store, or an answer of the store at a controller.
    fn deliver_to_store(&mut self, rules: Rules, letter: Letter) {
        match letter {
            Letter::Write {
                from,
                process,
                record,
            } => {
                let record = self.store.write(rules, *record).map(Box::new);
                self.letters.push(Letter::Written {
                    to: from,
                    process,
                    record,
                });
            }
            Letter::Lock {
                from,
                process,
                asked,
                renewals,
            } => {
                if self.store.lock(from as u8, renewals) {
                    self.letters.push(Letter::Locked {
                        to: from,
                        process,
                        asked,
                        renewals: renewals + 1,
                    });
                }
            }
            Letter::Written {
                to,
                process,
                record,
            } => {
                let controller = &mut self.controllers[to];
                if controller.process == process && controller.writing {
                    match record {
                        Some(record) => controller.handle_written(
                            rules,
                            controller.clock.read(self.now),
                            *record,
                        ),
                        None => controller.handle_refused(),
                    }
                }
            }
            Letter::Locked {
                to,
                process,
                asked,
                renewals,
            } => {
                let controller = &mut self.controllers[to];
                if controller.process == process {
                    controller.handle_elected(
                        rules,
                        controller.clock.read(self.now),
                        asked,
                        renewals,
                    );
                }
            }
            _ => unreachable!("delivered above"),
        }
    }
}
