//! Pulsepath in a real Kubernetes cluster, installed by Helm.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

mod api_server;
mod controllers;
mod gateways;
mod harness;
mod nodes;
mod objects;
mod replicas;
mod rights;
mod shared;

use std::thread::sleep;
use std::time::Duration;

use pulsepath_tests::egress::{PATIENCE, Stream, StreamReport};
use pulsepath_tests::eventually;
use pulsepath_tests::kubernetes::{Installation, Ownership};

/// How long nothing must happen, to say that nothing happens: longer than a controller takes to move
/// an address of a node that is gone, or to be followed by another.
const STILL: Duration = Duration::from_secs(6);

/// Lets time pass in which something must not happen.
fn wait_for_nothing() {
    sleep(STILL);
}

/// A gateway whose egress IP has an owner, and a client that uses it.
fn begin_egress(installation: &Installation) -> (Ownership, Stream) {
    installation.apply_gateway().unwrap();
    let owner = installation.await_owner_other_than(None).unwrap();
    let stream = eventually(PATIENCE, || Stream::start(installation.site().external()));
    (owner, stream)
}

/// On a machine that is busy with other tests, witnesses' votes come late. `cargo xtask e2e`, which has
/// it to itself, asks for nothing at all to be lost.
const HARDLY: Duration = Duration::from_secs(5);

/// Fails if a client noticed more than that the machine is busy.
#[track_caller]
fn assert_undisturbed(report: &StreamReport) {
    assert!(
        report.longest_gap < HARDLY,
        "{} lost: {report:?}",
        report.lost()
    );
}
