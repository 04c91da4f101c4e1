//! What happens to agents and to links, and what the controller makes of it.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use controller::api::State;
use pulsepath_tests::LinkState;

use super::{BREATH, PERIOD, SLACK, START, Story, TIMEOUT, describe};
use crate::probing::REPLY_WINDOW;
use crate::scene::{AGENT, Attachment, CONTROLLER, LINK};
use crate::watcher::nodes;
use pulsepath_tests::report::Probes;

/// The agents' defaults.
const BEAT_PERIOD: Duration = Duration::from_millis(100);
const BEAT_TIMEOUT: Duration = Duration::from_millis(500);

/// What rounding and the way of a packet may take off a time.
const ROUNDING: Duration = Duration::from_millis(2);
/// How long a link that is up again may take to carry packets.
const LINK_UP: Duration = Duration::from_millis(500);

impl Story<'_> {
    pub(super) fn about_nodes(&mut self) -> Result<()> {
        let incarnation = self.incarnation(AGENT)?;
        self.kill_agent()?;
        self.start_agent()?;
        self.upgrade_agent()?;
        let now = self.incarnation(AGENT)?;
        self.expect(
            "n2's incarnation after all that",
            &incarnation,
            &now,
            now == incarnation,
        );
        self.cut_link()?;
        self.mend_link()?;
        let unharmed = [CONTROLLER, AGENT].map(|index| self.probing.probes(index));
        let unharmed = unharmed.into_iter().sum();
        self.expect_none_lost("probes of n1 and n2 lost in all that", unharmed);
        Ok(())
    }

    fn kill_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is killed (kill -9): its kernel goes on answering");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let killed = self.mark("kill -9 agent", AGENT);
        self.scene.take_agent(AGENT)?.kill()?;
        let unavailable = self.await_state(seen, AGENT, State::Unavailable)?;
        self.expect_time(
            "agent killed: n2 UNAVAILABLE after",
            BEAT_TIMEOUT - BEAT_PERIOD - SLACK..=BEAT_TIMEOUT + PERIOD + SLACK,
            unavailable.at.saturating_sub(killed),
        );
        self.pause(BREATH)?;
        self.expect_none_lost_since("agent killed: probes lost", before)
    }

    fn start_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 starts again and adopts what is in the kernel");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let started = self.mark("start agent", AGENT);
        self.scene.spawn_agent(AGENT)?;
        let available = self.await_state(seen, AGENT, State::Available)?;
        let took = available.at.saturating_sub(started);
        self.expect_time("agent started: n2 AVAILABLE after", ..=START + PERIOD, took);
        self.scene.await_agent(AGENT)?;
        self.pause(BREATH)?;
        self.expect_none_lost_since("agent started: probes lost", before)
    }

    fn upgrade_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is upgraded: stopped, started, programs replaced");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let old = Attachment::all_of(self.scene.node(AGENT))?;
        self.mark("upgrade agent", AGENT);
        self.scene.take_agent(AGENT)?.terminate()?;
        self.scene.spawn_agent(AGENT)?;
        self.scene.await_agent(AGENT)?;
        let new = Attachment::all_of(self.scene.node(AGENT))?;
        let replaced =
            old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| new.replaces(old));
        for (old, new) in old.iter().zip(&new) {
            let (pin, link) = (&new.pin, new.link);
            let programs = format!("program {} -> {}", old.program, new.program);
            self.console
                .tell(&format!("{pin}: link {link}, {programs}"));
        }
        let words = if replaced { "yes" } else { "no" };
        self.expect(
            "upgrade: new programs behind the same links",
            "yes",
            words,
            replaced,
        );
        self.pause(TIMEOUT)?;
        let states = self.watcher.news(seen, &["n2"]);
        let never_gone = states.iter().all(|seen| seen.to != State::Unreachable);
        let words = describe(&states);
        self.expect(
            "upgrade: state changes",
            "no UNREACHABLE",
            &words,
            never_gone,
        );
        self.expect_none_lost_since("upgrade: probes lost", before)
    }

    fn cut_link(&mut self) -> Result<()> {
        self.console.chapter("The link of n3 is cut");
        let seen = self.watcher.mark();
        let begun = self.mark("cut link", LINK);
        self.scene.cluster().set_link(LINK, LinkState::Down)?;
        let unreachable = self.await_state(seen, LINK, State::Unreachable)?;
        // It was cut after the last answer that came through, and after the demo set about it.
        let last = self
            .probing
            .last_answer(LINK)
            .context("n3 never answered")?;
        let cut = last.max(begun);
        self.expect_time(
            "link cut: n3 UNREACHABLE after",
            TIMEOUT - ROUNDING..=TIMEOUT + PERIOD + SLACK,
            unreachable.at.saturating_sub(cut),
        );
        self.pause(BREATH)?;
        let others = self.watcher.news(seen, &["n1", "n2"]);
        let words = describe(&others);
        self.expect(
            "link cut: state changes of n1 and n2",
            "none",
            &words,
            others.is_empty(),
        );
        Ok(())
    }

    fn mend_link(&mut self) -> Result<()> {
        self.console.chapter("The link of n3 is mended");
        let seen = self.watcher.mark();
        let mended = self.mark("mend link", LINK);
        self.scene.cluster().set_link(LINK, LinkState::Up)?;
        let available = self.await_state(seen, LINK, State::Available)?;
        let took = available.at.saturating_sub(mended);
        self.expect_time("link mended: n3 AVAILABLE after", ..=LINK_UP + PERIOD, took);
        self.pause(BREATH)
    }

    /// Lets the last probes' reply window pass, then expects that none of n2's was lost.
    fn expect_none_lost_since(&mut self, what: &str, before: Probes) -> Result<()> {
        self.pause(REPLY_WINDOW + SLACK)?;
        self.expect_none_lost(what, self.probing.probes(AGENT).since(before));
        Ok(())
    }

    fn incarnation(&self, index: u8) -> Result<String> {
        let name = self.scene.node(index).name();
        let list = nodes(self.scene.controller_node())?.nodes;
        list.into_iter()
            .find(|node| node.name == name)
            .and_then(|node| node.incarnation)
            .ok_or_else(|| anyhow!("the controller knows no incarnation of {name}"))
    }
}
