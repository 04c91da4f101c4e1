//! The bench of fencing: every schedule of faults again and again, in every way to attach reflector and
//! fence, and for how long the recorder saw two owners of the egress IP.
//!
//! The same without a fence comes first: a recorder that sees nothing there would prove nothing.

mod report;

use std::thread;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use pulsepath_tests::fencing::{Fencing, SCHEDULES, Schedule, Site, UNFENCED, Variant, WITNESSED};

use report::Row;

/// How much to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each schedule is run in each variant.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How nodes are fenced.
    #[arg(long, value_enum, default_value_t = Choice::Strict)]
    fencing: Choice,
    /// Only schedules whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    /// By a lease that the controller alone extends.
    Strict,
    /// By a lease that witnesses extend, too.
    Quorum,
}

impl From<Choice> for Fencing {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Strict => Self::Strict,
            Choice::Quorum => Self::Quorum,
        }
    }
}

/// Runs the bench and prints what it measured.
///
/// # Errors
/// Something does not work, two owners were seen, or none without a fence.
pub(crate) fn run(options: &Options) -> Result<()> {
    let more = match options.fencing {
        Choice::Strict => &[],
        Choice::Quorum => WITNESSED,
    };
    let schedules: Vec<&Schedule> = (SCHEDULES.iter().chain(more))
        .filter(|schedule| schedule.name.contains(&options.only))
        .collect();
    ensure!(
        !schedules.is_empty(),
        "no schedule is called {:?}",
        options.only
    );
    let without = in_all_variants(Fencing::None, &[&UNFENCED], 1)?;
    let with = in_all_variants(options.fencing.into(), &schedules, options.rounds)?;
    println!("\nwithout a fence");
    println!("{}", report::table(&without));
    println!("with it");
    println!("{}", report::table(&with));
    let blind = without.iter().any(|row| row.least_overlap().is_zero());
    ensure!(
        !blind,
        "the recorder does not see two owners where there are two"
    );
    let failed: Vec<String> = with.iter().filter_map(Row::failure).collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// One row for each schedule, over all variants, which run beside each other: they wait most of the
/// time.
fn in_all_variants(fencing: Fencing, schedules: &[&Schedule], rounds: u32) -> Result<Vec<Row>> {
    let variants = Variant::all(fencing);
    let all = thread::scope(|scope| {
        let begin = |(number, variant)| {
            let purpose = format!("bench-fence{number}");
            scope.spawn(move || in_variant(&purpose, variant, schedules, rounds))
        };
        let running: Vec<_> = (0..).zip(variants).map(begin).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.collect::<Vec<_>>()
    });
    let mut rows: Vec<Row> = schedules.iter().map(|it| Row::new(it.name)).collect();
    for of_variant in all {
        let of_variant = of_variant.map_err(|_| anyhow!("a variant's thread panicked"))??;
        for (row, more) in rows.iter_mut().zip(of_variant) {
            row.add(more);
        }
    }
    Ok(rows)
}

fn in_variant(
    purpose: &str,
    variant: Variant,
    schedules: &[&Schedule],
    rounds: u32,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = schedules.iter().map(|it| Row::new(it.name)).collect();
    let mut site = Site::start(purpose, variant)?;
    for round in 1..=rounds {
        for (schedule, row) in schedules.iter().zip(&mut rows) {
            let outcome = site.run(schedule);
            match &outcome {
                Ok(outcome) => println!(
                    "{variant}: round {round}: {}: overlap {:.1?}",
                    schedule.name, outcome.overlap
                ),
                Err(error) => {
                    println!("round {round}: {error:#}");
                    // Whatever is wrong there stays behind.
                    site = Site::start(purpose, variant)?;
                }
            }
            row.note(outcome.ok());
        }
    }
    Ok(rows)
}
