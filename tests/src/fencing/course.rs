//! Many schedules, again and again, on several sites at once: they wait most of the time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

use super::schedules::{SCHEDULES, TOGETHER, WITNESSED};
use super::{Fencing, Outcome, Place, Schedule, Site, Variant};

/// Schedules for sites of one kind.
#[derive(Clone, Debug)]
pub struct Course {
    /// How nodes are fenced and probed there.
    pub variant: Variant,
    /// Where the controller is.
    pub place: Place,
    /// What happens, in this order.
    pub schedules: Vec<&'static Schedule>,
}

impl Course {
    /// All schedules that nodes which are fenced so can be put to, in one variant.
    pub fn all(variant: Variant) -> [Self; 2] {
        let more = match variant.fencing {
            Fencing::Quorum => WITNESSED,
            Fencing::None | Fencing::Strict => &[],
        };
        let course = |place, schedules| Self {
            variant,
            place,
            schedules,
        };
        [
            course(Place::Apart, SCHEDULES.iter().chain(more).collect()),
            course(Place::OnOwner, TOGETHER.iter().collect()),
        ]
    }
}

/// What is told of each run.
type Done<'a> = &'a (dyn Fn(&Site, &'static Schedule, Result<Outcome>) + Sync);

/// Runs every schedule of all courses so many times, on `jobs` sites at a time, and tells `done` of each.
/// A site on which one ended otherwise than it should is not used again.
///
/// # Errors
/// A site cannot be made.
///
/// # Panics
/// `done` panics.
pub fn run_courses(
    purpose: &str,
    courses: &[Course],
    rounds: u32,
    jobs: usize,
    done: Done<'_>,
) -> Result<()> {
    let queue = |course: &Course| {
        let schedules = (0..rounds).flat_map(|_| &course.schedules);
        Mutex::new(schedules.copied().collect())
    };
    let queues: Vec<Queue> = courses.iter().map(queue).collect();
    let workers = thread::scope(|scope| {
        let start = |number| {
            let worker = Worker {
                purpose: format!("{purpose}{number}"),
                courses,
                queues: &queues,
                done,
            };
            scope.spawn(move || worker.run(number % courses.len()))
        };
        let running: Vec<_> = (0..jobs).map(start).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.collect::<Vec<_>>()
    });
    let ended = workers
        .into_iter()
        .map(|worker| worker.map_err(|_| anyhow!("a site's thread panicked")));
    ended.collect::<Result<Vec<_>>>()?.into_iter().collect()
}

/// What is left of a course.
type Queue = Mutex<VecDeque<&'static Schedule>>;

/// Runs one site after the other.
struct Worker<'a> {
    purpose: String,
    courses: &'a [Course],
    queues: &'a [Queue],
    done: Done<'a>,
}

impl Worker<'_> {
    /// Begins with this course, and goes on with whichever has most left.
    fn run(&self, first: usize) -> Result<()> {
        self.take(first)?;
        let left = |index: &usize| lock(&self.queues[*index]).len();
        while let Some(most) = (0..self.queues.len()).max_by_key(left)
            && left(&most) > 0
        {
            self.take(most)?;
        }
        Ok(())
    }

    /// Runs what is left of a course, together with whoever does so, too.
    fn take(&self, index: usize) -> Result<()> {
        let course = &self.courses[index];
        let mut unused = None;
        while let Some(schedule) = { lock(&self.queues[index]).pop_front() } {
            let mut site = match unused.take() {
                Some(site) => site,
                None => Site::start(&self.purpose, course.variant, course.place)?,
            };
            let outcome = site.run(schedule);
            let is_fit = outcome.is_ok();
            (self.done)(&site, schedule, outcome);
            unused = Some(site).filter(|_| is_fit);
        }
        Ok(())
    }
}

fn lock(queue: &Queue) -> std::sync::MutexGuard<'_, VecDeque<&'static Schedule>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
