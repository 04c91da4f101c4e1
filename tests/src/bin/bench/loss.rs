//! The bench of loss: how often nodes with which nothing is wrong are given up, and how often their leases
//! lapse, in simulated hours of networks that lose packets.

use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use pulsepath_tests::loss::{Failovers, Lapses, NODES, WITNESSES};

/// Shares of packets that are lost in each direction.
const LOSSES: [f64; 2] = [0.01, 0.05];
/// So many lapses are allowed in 1,000 hours of a node, at the lower loss.
const FEW: f64 = 1.0;

/// How much to simulate.
#[derive(Args)]
pub(crate) struct Options {
    /// How many hours, of 1,000 nodes each.
    #[arg(long, default_value_t = 1000)]
    hours: u32,
}

/// What came of one share of losses.
struct Row {
    loss: f64,
    alone: Failovers,
    asked: Failovers,
    lapses: Lapses,
}

/// Runs the bench and prints what it counted.
///
/// # Errors
/// A node was given up although others were asked, or too many leases lapsed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let hours = f64::from(options.hours);
    let began = Instant::now();
    let rows = thread::scope(|scope| {
        let running = LOSSES.map(|loss| scope.spawn(move || simulate(loss, hours)));
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.collect::<Result<Vec<_>, _>>()
    });
    let rows = rows.map_err(|_| anyhow!("a simulation panicked"))?;
    println!(
        "{NODES} nodes, {hours} h, default profile, {:.1?}",
        began.elapsed()
    );
    for row in &rows {
        row.print(hours);
    }
    for row in &rows {
        let given_up = row.asked.given_up;
        ensure!(given_up == 0, "{given_up} false failovers with witnesses");
    }
    let few = |lapses| Lapses::rate(lapses, hours) <= FEW;
    let first = rows.first().map(|row| row.lapses);
    let is_fine = first.is_some_and(|it| few(it.without_votes) && few(it.with_votes));
    ensure!(is_fine, "more than {FEW} lapses per 1,000 node-hours");
    Ok(())
}

fn simulate(loss: f64, hours: f64) -> Row {
    Row {
        loss,
        alone: Failovers::simulate(loss, hours, false),
        asked: Failovers::simulate(loss, hours, true),
        lapses: Lapses::simulate(loss, hours),
    }
}

impl Row {
    fn print(&self, hours: f64) {
        let Self {
            loss,
            alone,
            asked,
            lapses,
        } = self;
        println!(
            "\n{:.0} % of all packets lost in each direction",
            loss * 100.0
        );
        let line = |what: &str, count: u64| {
            let rate = Lapses::rate(count, hours);
            println!("  {what:<48}{count:>12}{rate:>14.6} per 1,000 node-hours");
        };
        line("silences as long as the timeout", alone.runs);
        line("false failovers, nobody asked", alone.given_up);
        line("false failovers, others asked", asked.given_up);
        line("lapses of leases, controller alone", lapses.without_votes);
        let with = format!("lapses of leases, {WITNESSES} witnesses, too");
        line(&with, lapses.with_votes);
    }
}
