//! An agent: applies what it is told, step by step; it may die or freeze between any two. All that it
//! must remember is in the kernel.

use std::net::IpAddr;

use probe_user::channel::Report;
use probe_user::egress::{AddressReport, AddressState, Desired};

use crate::kernel::Kernel;

#[derive(Default)]
pub(crate) struct Agent {
    job: Option<Job>,
    /// The newest push that waits for the one that is being applied.
    waiting: Option<Job>,
}

struct Job {
    desired: Desired,
    /// Which process of the controller waits for the answer.
    process: u64,
    step: u8,
}

impl Agent {
    pub(crate) fn handle_push(
        &mut self,
        kernel: &Kernel,
        incarnation: Option<u64>,
        desired: Desired,
        process: u64,
    ) {
        let assignment = &kernel.assignment;
        let is_other = incarnation.is_some_and(|it| it != assignment.incarnation);
        if is_other || desired.epoch < assignment.applied_epoch {
            return;
        }
        let newest = [&self.job, &self.waiting].into_iter().flatten();
        if newest.map(|job| job.desired.epoch).max() > Some(desired.epoch) {
            return;
        }
        self.waiting = Some(Job {
            desired,
            process,
            step: 0,
        });
    }

    /// Takes the next step; says what it answers, and to which process.
    pub(crate) fn step(&mut self, kernel: &mut Kernel) -> Option<(Report, u64)> {
        let job = match &mut self.job {
            Some(job) => job,
            None => self.job.insert(self.waiting.take()?),
        };
        let addresses: Vec<IpAddr> = job.desired.addresses.iter().map(|it| it.address).collect();
        match job.step {
            0 => kernel.shut_all_but(&addresses),
            1 => kernel.remove_witnesses(),
            2 => kernel.set_witnesses(job.desired.witnesses.as_ref(), job.desired.lease_ms),
            3 => kernel.open(addresses),
            4 => kernel.assignment.applied_epoch = job.desired.epoch,
            _ => {
                let job = self.job.take()?;
                return Some((report(kernel, &addresses), job.process));
            }
        }
        job.step += 1;
        None
    }
}

fn report(kernel: &Kernel, addresses: &[IpAddr]) -> Report {
    let announced = |address: &IpAddr| AddressReport {
        address: *address,
        state: AddressState::Announced,
    };
    Report {
        applied_epoch: kernel.assignment.applied_epoch,
        incarnation: kernel.assignment.incarnation,
        addresses: addresses.iter().map(announced).collect(),
        not_fenced: Vec::new(),
        witness_version: kernel.assignment.witness_version,
    }
}
