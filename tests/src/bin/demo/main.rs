//! `cargo xtask demo`: three nodes and a controller, a client behind an egress IP, what happens to
//! them, and what is noticed.
//!
//! `scene` says who plays, `story` what happens; `watcher`, `ownership`, `probing` and `client`
//! observe it, `timeline` shows it.

#![forbid(unsafe_code)]

mod client;
mod clock;
mod console;
mod keep;
mod ownership;
mod probing;
mod scene;
mod story;
mod timeline;
mod watcher;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;
use pulsepath_tests::egress::Scene;
use pulsepath_tests::{Signal, leftovers};

use crate::story::{Interrupted, Story};

/// What a shell expects of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Shows on this machine what Pulsepath notices, how fast, and what is lost meanwhile (nothing).
#[derive(Parser)]
#[command(name = "pulsepath-demo", version)]
struct Arguments {
    /// Where the picture of the story goes; what the daemons wrote, too, if something was off.
    #[arg(long, default_value = "target/demo")]
    output: PathBuf,
    /// Leaves everything running until Ctrl-C, and says what to try.
    #[arg(long)]
    keep: bool,
    /// Ends demos that still run, removes what they left, and does nothing else.
    #[arg(long, conflicts_with = "keep")]
    clean: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.clean {
        keep::end_others()?;
        leftovers::sweep();
        return Ok(ExitCode::SUCCESS);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signal_hook::flag::register(signal as i32, Arc::clone(&interrupted))
            .with_context(|| format!("handle {signal}"))?;
    }
    match run(&arguments, &interrupted) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("\ninterrupted; everything is removed");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
    }
}

/// Whether everything was as expected.
fn run(arguments: &Arguments, interrupted: &AtomicBool) -> Result<bool> {
    let mut scene = scene::new()?;
    let mut story = tell(&mut scene, interrupted)?;
    let picture = write(&arguments.output, "timeline.svg", &story.timeline().svg())?;
    println!("\n{}", story.report());
    let all_right = story.report().all_right();
    let verdict = if all_right {
        "Everything"
    } else {
        "NOT everything"
    };
    println!("{verdict} is as expected.");
    println!("The story as a picture: {}", picture.display());
    if !all_right {
        let logs = write(&arguments.output, "daemons.log", &story.scene().logs())?;
        println!("What the daemons wrote: {}", logs.display());
    }
    if arguments.keep {
        keep::invite(story.scene())?;
        keep::wait(&mut story, interrupted);
    }
    Ok(all_right)
}

/// The whole story; if it breaks off, what the daemons said until then.
fn tell<'a>(scene: &'a mut Scene, interrupted: &'a AtomicBool) -> Result<Story<'a>> {
    let mut story = Story::begin(scene, interrupted)?;
    if let Err(error) = story.go_on() {
        if !error.is::<Interrupted>() {
            eprintln!("\nWhat the daemons say:\n{}", story.scene().logs());
        }
        return Err(error);
    }
    Ok(story)
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
