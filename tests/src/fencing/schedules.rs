//! What goes wrong, and how it ends.

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::site::Phase;
use super::{Fault, Fencing, LEASE, Site, Stop};
use crate::Direction::{self, FromNode, ToNode};
use crate::egress::PATIENCE;
use crate::within;

/// A node that is neither a candidate nor has the controller.
const BYSTANDER: u8 = 3;
/// How long a node takes to boot.
const BOOT: Duration = Duration::from_secs(5);

/// Faults in a certain order.
#[derive(Debug)]
pub struct Schedule {
    /// What happens, for people.
    pub name: &'static str,
    /// Where the egress IP is afterwards.
    pub ends: Ends,
    /// Has it happen. What is wrong at its end is mended by the site.
    pub(super) happens: fn(&mut Site) -> Result<()>,
}

/// How a schedule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The egress IP has got another owner.
    Moved,
    /// It has got another owner, unless witnesses hear the one that it had.
    MovedUnlessWitnessed,
    /// It has the same owner, and that is heard of nearly all the time.
    Stayed,
    /// It has the same owner, but no controller extended its lease for longer than that lasts: with
    /// strict fencing it was silent for a while, with a quorum it was not.
    Abandoned,
    /// That depends on who is faster.
    Either,
}

const fn moved(name: &'static str, happens: fn(&mut Site) -> Result<()>) -> Schedule {
    schedule(name, Ends::Moved, happens)
}

const fn abandoned(name: &'static str, happens: fn(&mut Site) -> Result<()>) -> Schedule {
    schedule(name, Ends::Abandoned, happens)
}

const fn schedule(
    name: &'static str,
    ends: Ends,
    happens: fn(&mut Site) -> Result<()>,
) -> Schedule {
    Schedule {
        name,
        ends,
        happens,
    }
}

/// The management link alone is cut: without a fence there are two owners after it.
pub const UNFENCED: Schedule = moved("management link cut", cut_management);

/// For sites with the controller on the owner's node.
pub const TOGETHER: &[Schedule] = &[
    schedule(
        "controller and owner cut off together",
        Ends::Stayed,
        |site| {
            cut_management(site)?;
            std::thread::sleep(2 * LEASE);
            site.end(Fault::CutManagement(site.owner()))
        },
    ),
    abandoned("controller and the owner's agent frozen together", |site| {
        site.begin(Fault::Agent(site.owner(), Stop::Frozen))?;
        controller_away(site, Stop::Frozen, LEASE + Duration::from_secs(1))?;
        site.end(Fault::Agent(site.owner(), Stop::Frozen))
    }),
];

/// Every schedule. None may ever show two owners, as long as nodes are fenced.
pub const SCHEDULES: &[Schedule] = &[
    moved("all links cut", |site| site.begin(Fault::Cut(site.owner()))),
    UNFENCED,
    moved("owner not heard", |site| {
        site.begin(Fault::OneWay(site.owner(), FromNode))
    }),
    moved("owner does not hear", |site| {
        site.begin(Fault::OneWay(site.owner(), ToNode))
    }),
    schedule(
        "probes late by two leases",
        Ends::MovedUnlessWitnessed,
        |site| late(site, ToNode),
    ),
    schedule(
        "answers late by two leases",
        Ends::MovedUnlessWitnessed,
        |site| late(site, FromNode),
    ),
    moved("agent killed, then management link cut", |site| {
        site.begin(Fault::Agent(site.owner(), Stop::Killed))?;
        cut_management(site)
    }),
    moved(
        "agent frozen, management link cut, thawed after the move",
        |site| {
            let frozen = Fault::Agent(site.owner(), Stop::Frozen);
            site.begin(frozen)?;
            cut_management(site)?;
            site.await_phase(Phase::Announced)?;
            site.end(frozen)
        },
    ),
    moved("owner boots", |site| {
        site.begin(Fault::Reboot(site.owner()))?;
        site.await_phase(Phase::Announced)?;
        std::thread::sleep(BOOT - LEASE);
        site.end(Fault::Reboot(site.owner()))
    }),
    schedule("cut, healed before it is noticed", Ends::Stayed, |site| {
        heal(site, Phase::Unnoticed)
    }),
    schedule(
        "cut, healed while the lease is waited for",
        Ends::Either,
        |site| heal(site, Phase::Waiting),
    ),
    moved("cut, healed as the address moves", |site| {
        heal(site, Phase::Moving)
    }),
    moved("cut, healed once it has moved", |site| {
        heal(site, Phase::Announced)
    }),
    moved("controller restarted before it notices", |site| {
        restart(site, Phase::Unnoticed)
    }),
    moved(
        "controller restarted while it waits for the lease",
        |site| restart(site, Phase::Waiting),
    ),
    moved("controller restarted as the address moves", |site| {
        restart(site, Phase::Moving)
    }),
    moved("controller restarted once it has moved", |site| {
        restart(site, Phase::Announced)
    }),
    schedule("controller restarted", Ends::Stayed, |site| {
        controller_away(site, Stop::Killed, Duration::ZERO)
    }),
    abandoned("controller frozen for longer than a lease", |site| {
        controller_away(site, Stop::Frozen, LEASE + Duration::from_secs(1))
    }),
    abandoned("no controller for 20 s", |site| {
        controller_away(site, Stop::Killed, Duration::from_secs(20))
    }),
    abandoned("controller cut off", |site| {
        let cut = Fault::CutManagement(site.controller());
        site.begin(cut)?;
        std::thread::sleep(2 * LEASE);
        site.end(cut)
    }),
];

/// What only witnesses make any difference to: for sites with a quorum.
pub const WITNESSED: &[Schedule] = &[
    moved("a witness down all the time, management link cut", |site| {
        site.begin(Fault::Agent(BYSTANDER, Stop::Killed))?;
        cut_management(site)
    }),
    abandoned("all agents restarted without a controller", |site| {
        site.begin(Fault::Controller(Stop::Killed))?;
        for node in site.scene().indices() {
            let killed = Fault::Agent(node, Stop::Killed);
            site.begin(killed)?;
            site.end(killed)?;
            site.await_agent(node)?;
        }
        std::thread::sleep(2 * LEASE);
        Ok(())
    }),
    moved("owner and one of its witnesses cut off together", |site| {
        site.begin(Fault::Split(site.owner_with_witnesses(1)?))
    }),
    schedule(
        "owner and most of its witnesses cut off together",
        Ends::Stayed,
        |site| outvoted(site, Fault::Split(site.owner_with_witnesses(2)?)),
    ),
    schedule(
        "controller in the smaller part of a split cluster",
        Ends::Stayed,
        |site| outvoted(site, Fault::CutManagement(site.controller())),
    ),
    schedule("all agents dead", Ends::Stayed, |site| {
        for node in site.scene().indices() {
            site.begin(Fault::Agent(node, Stop::Killed))?;
        }
        std::thread::sleep(2 * LEASE);
        Ok(())
    }),
];

fn cut_management(site: &mut Site) -> Result<()> {
    site.begin(Fault::CutManagement(site.owner()))
}

/// The controller, on the other side of this, finds that it can move nothing.
fn outvoted(site: &mut Site, split: Fault) -> Result<()> {
    site.begin(split)?;
    site.scene().await_held("NoQuorum")?;
    std::thread::sleep(2 * LEASE);
    Ok(())
}

/// Packets of before the move arrive after it. Whoever else hears the owner keeps it where it is.
fn late(site: &mut Site, direction: Direction) -> Result<()> {
    site.begin(Fault::Late(site.owner(), direction, 2 * LEASE))?;
    if site.variant().fencing != Fencing::Quorum {
        site.await_phase(Phase::Announced)?;
    }
    let before = site.scene().replies("late")?;
    let late = || site.scene().replies("late").is_ok_and(|now| now > before);
    within(PATIENCE, late).map_err(|_| anyhow!("nothing that was held has arrived"))?;
    std::thread::sleep(LEASE / 2);
    Ok(())
}

fn heal(site: &mut Site, phase: Phase) -> Result<()> {
    cut_management(site)?;
    site.await_phase(phase)?;
    site.end(Fault::CutManagement(site.owner()))
}

/// The controller is killed, and starts at once.
fn restart(site: &mut Site, phase: Phase) -> Result<()> {
    cut_management(site)?;
    site.await_phase(phase)?;
    controller_away(site, Stop::Killed, Duration::ZERO)
}

fn controller_away(site: &mut Site, how: Stop, time: Duration) -> Result<()> {
    site.begin(Fault::Controller(how))?;
    std::thread::sleep(time);
    site.end(Fault::Controller(how))
}
