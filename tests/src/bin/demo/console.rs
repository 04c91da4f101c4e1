//! The live story, for people.

use std::io::IsTerminal;
use std::time::Duration;

use controller::api::{State, Transition};

use crate::clock::Clock;
use pulsepath_tests::report::seconds;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Prints what happens, with the time, as it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    clock: Clock,
    colours: bool,
}

impl Console {
    /// Colours are for terminals only.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            colours: std::io::stdout().is_terminal(),
        }
    }

    /// Begins a chapter.
    pub(crate) fn chapter(&self, title: &str) {
        println!("\n{}", self.paint(BOLD, title));
    }

    /// Something was done or found.
    pub(crate) fn tell(&self, what: &str) {
        self.tell_at(self.clock.now(), what);
    }

    /// Something was done or found at `time`.
    pub(crate) fn tell_at(&self, time: Duration, what: &str) {
        let time = format!("{:>8}", seconds(time));
        println!("{}  {what}", self.paint(DIM, &time));
    }

    /// The controller changed its mind about a node.
    pub(crate) fn transition(&self, transition: &Transition) {
        let from = self.state(transition.from);
        let to = self.state(transition.to);
        let what = format!("controller: {} {from} -> {to}", transition.node);
        self.tell_at(self.clock.at_system(transition.at.0), &what);
    }

    /// Something was measured and judged.
    pub(crate) fn result(&self, what: &str, right: bool) {
        let (mark, colour) = if right { ("ok", GREEN) } else { ("wrong", RED) };
        println!(
            "{:>8}  {}",
            "",
            self.paint(colour, &format!("{mark}: {what}"))
        );
    }

    fn state(&self, state: State) -> String {
        let colour = match state {
            State::Unknown => DIM,
            State::Available => GREEN,
            State::Unavailable => YELLOW,
            State::Unreachable => RED,
        };
        self.paint(colour, state.as_str())
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
