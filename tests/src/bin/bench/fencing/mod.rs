//! The bench of fencing: every schedule of faults again and again, in every way to attach reflector and
//! fence, and for how long the recorder saw two owners of the egress IP.
//!
//! The same without a fence comes first: a recorder that sees nothing there would prove nothing.

mod report;

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use pulsepath_tests::fencing::{Course, Fencing, Place, UNFENCED, Variant, run_courses};

use report::Table;

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
    /// How many sites, of four or five nodes each, there are at a time.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=32))]
    jobs: u8,
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
    let control = |variant| Course {
        variant,
        place: Place::Apart,
        schedules: vec![&UNFENCED],
    };
    let controls = Variant::all(Fencing::None).map(control);
    let variants = Variant::all(options.fencing.into());
    let mut courses = variants.map(Course::all).concat();
    for course in &mut courses {
        let chosen = |name: &str| name.contains(&options.only);
        course.schedules.retain(|schedule| chosen(schedule.name));
    }
    courses.retain(|course| !course.schedules.is_empty());
    ensure!(
        !courses.is_empty(),
        "no schedule is called {:?}",
        options.only
    );
    let without = measure(&controls, 1, options.jobs)?;
    let with = measure(&courses, options.rounds, options.jobs)?;
    println!("\nwithout a fence\n{without}\nwith it\n{with}");
    ensure!(
        !without.least_overlap().is_zero(),
        "the recorder does not see two owners where there are two"
    );
    let failures = with.failures();
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// One row for each schedule, and a column for each variant.
fn measure(courses: &[Course], rounds: u32, jobs: u8) -> Result<Table> {
    let table = Mutex::new(Table::new(courses));
    run_courses(
        "bench-fence",
        courses,
        rounds,
        jobs.into(),
        &|site, schedule, outcome| {
            let (variant, name) = (site.variant(), schedule.name);
            match &outcome {
                Ok(outcome) => println!("{variant}: {name}: overlap {:.1?}", outcome.overlap),
                Err(error) => println!("{error:#}"),
            }
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.note(variant, name, outcome.ok());
        },
    )?;
    Ok(table.into_inner().unwrap_or_else(PoisonError::into_inner))
}
