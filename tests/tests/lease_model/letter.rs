//! The network.

use std::fmt;

use crate::{
    kernel::{Request, Right},
    record::{Assignment, Epoch, Record},
    time::{MS, Ns},
    witness::{Instance, Promise},
};

/// Who sends probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Prober {
    Controller(usize),
    Witness(usize),
}

/// What is on its way. It may arrive at any time, several times, in any order, or never. A process that is
/// frozen between a decision and the send is a letter that takes long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Letter {
    Probe {
        from: Prober,
        to: usize,
        request: Option<Request>,
    },
    Reply {
        to: Prober,
        from: usize,
        incarnation: u16,
        time: Ns,
    },
    Ask {
        from: usize,
        to: Instance,
        gateway: usize,
        floor: Epoch,
    },
    Promise {
        to: usize,
        gateway: usize,
        promise: Promise,
    },
    Push {
        from: usize,
        to: usize,
        incarnation: u16,
        assignment: Assignment,
    },
    Confirm {
        to: usize,
        from: usize,
        confirmed: (Epoch, u16),
    },
    Write {
        from: usize,
        process: u16,
        record: Box<Record>,
    },
    Written {
        to: usize,
        process: u16,
        record: Option<Box<Record>>,
    },
    Lock {
        from: usize,
        process: u16,
        asked: Ns,
        renewals: u16,
    },
    Locked {
        to: usize,
        process: u16,
        asked: Ns,
        renewals: u16,
    },
}

impl fmt::Display for Letter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe {
                from,
                to,
                request: Some(request),
            } => {
                let Request {
                    right,
                    incarnation,
                    echo,
                    floor,
                } = request;
                let word = if matches!(right, Right::Controller) {
                    "RENEW"
                } else {
                    "VOTE"
                };
                let echo = echo / MS;
                write!(
                    out,
                    "{word} {from:?} -> node {to}: incarnation {incarnation}, echo {echo} ms, floor {floor}"
                )
            }
            Self::Probe {
                from,
                to,
                request: None,
            } => write!(out, "probe {from:?} -> node {to}"),
            Self::Reply {
                to,
                from,
                incarnation,
                time,
            } => {
                write!(
                    out,
                    "reply node {from} -> {to:?}: incarnation {incarnation}, time {} ms",
                    time / MS
                )
            }
            Self::Ask {
                from,
                to,
                gateway,
                floor,
            } => {
                write!(
                    out,
                    "ask controller {from} -> {to:?}: node {gateway}, floor {floor}"
                )
            }
            Self::Promise {
                to,
                gateway,
                promise,
            } => {
                let (by, floor, age) = (
                    promise.instance,
                    promise.floor,
                    promise.age.map(|age| age / MS),
                );
                write!(
                    out,
                    "promise {by:?} -> controller {to}: node {gateway}, floor {floor}, last vote {age:?} ms ago"
                )
            }
            Self::Push {
                from,
                to,
                incarnation,
                assignment,
            } => {
                write!(
                    out,
                    "push controller {from} -> node {to}: incarnation {incarnation}, {assignment}"
                )
            }
            Self::Confirm {
                to,
                from,
                confirmed: (epoch, version),
            } => {
                write!(
                    out,
                    "confirm node {from} -> controller {to}: epoch {epoch}, set version {version}"
                )
            }
            Self::Write { from, process, .. } => {
                write!(out, "write controller {from} (process {process})")
            }
            Self::Written {
                to,
                process,
                record,
            } => {
                let word = if record.is_some() {
                    "written"
                } else {
                    "refused"
                };
                write!(out, "{word} -> controller {to} (process {process})")
            }
            Self::Lock { from, renewals, .. } => write!(
                out,
                "lock controller {from}, if still at renewal {renewals}"
            ),
            Self::Locked { to, renewals, .. } => {
                write!(out, "locked -> controller {to}, renewal {renewals}")
            }
        }
    }
}
