//! What happens to the owner of an egress IP, and what the client behind it notices.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use controller::api::State;
use pulsepath_tests::LinkState;
use pulsepath_tests::egress::EGRESS_IP;

use super::{BREATH, SLACK, START, Story};
use crate::client::{Client, Moment};
use crate::probing::REPLY_WINDOW;
use crate::scene::{AGENT, LINK, NODES};
use crate::timeline::{Band, Lane};
use pulsepath_tests::report::seconds;

/// What a client may notice of a cut, and of a drain.
const CUT_OUTAGE: Duration = Duration::from_millis(2400);
const DRAIN_OUTAGE: Duration = Duration::from_millis(500);
/// Answers by which the client knows that it is served again.
const SOME: u64 = 50;
/// Exchanges over TCP of which one began after the outage.
const NEXT_EXCHANGES: u64 = 2;

/// What is compared with what comes later.
struct Before {
    client: Moment,
    moves: usize,
}

impl Story<'_> {
    pub(super) fn about_an_egress_ip(&mut self) -> Result<()> {
        self.choose_gateways()?;
        self.kill_owners_agent(AGENT)?;
        self.cut_owner(AGENT, LINK)?;
        self.heal_former_owner(AGENT, LINK)?;
        self.drain_owner(LINK, AGENT)?;
        self.cut_twice(AGENT, LINK)?;
        self.expect_one_source_and_one_connection()
    }

    fn choose_gateways(&mut self) -> Result<()> {
        self.console.chapter(&format!(
            "n2 becomes a gateway: it owns the egress IP {EGRESS_IP}, by which a client reaches a server"
        ));
        let chosen = self.note("gateway: n2", EGRESS_LANE);
        self.scene.select(&[AGENT])?;
        self.await_owner(AGENT)?;
        let client = Client::start(self.scene.external(), self.clock, self.console)?;
        let took = self.clock.now().saturating_sub(chosen);
        self.console
            .tell("the client sends 1,000 datagrams a second, and talks over one TCP connection");
        let sources = in_words(&client.sources());
        self.console
            .tell(&format!("the server sees them come from {sources}"));
        let before = before(&client, self.moves());
        self.client = Some(client);
        self.expect_time("gateway chosen: the client is served after", ..=START, took);
        self.console.tell("n3 becomes a second gateway");
        self.note("and n3", EGRESS_LANE);
        self.scene.select(&[AGENT, LINK])?;
        self.pause(BREATH)?;
        self.expect_no_move("second gateway", &before);
        Ok(())
    }

    fn kill_owners_agent(&mut self, owner: u8) -> Result<()> {
        self.console.chapter(&format!(
            "The agent of the owner, n{owner}, is killed (kill -9), and starts again"
        ));
        let (seen, before) = (self.watcher.mark(), self.before()?);
        self.mark("kill -9 agent", owner);
        self.scene.take_agent(owner)?.kill()?;
        self.await_state(seen, owner, State::Unavailable)?;
        self.pause(BREATH)?;
        self.mark("start agent", owner);
        self.scene.spawn_agent(owner)?;
        self.scene.await_agent(owner)?;
        self.await_state(seen, owner, State::Available)?;
        self.pause(BREATH)?;
        self.expect_no_move("owner's agent killed", &before);
        self.expect_no_packet_lost("owner's agent killed: packets lost", &before)
    }

    fn cut_owner(&mut self, owner: u8, next: u8) -> Result<()> {
        self.console
            .chapter(&format!("The owner, n{owner}, is cut off"));
        self.cut_and_measure("owner cut", owner, next)
    }

    fn heal_former_owner(&mut self, former: u8, owner: u8) -> Result<()> {
        self.console.chapter(&format!(
            "n{former} is back: the egress IP stays where it is"
        ));
        let before = self.before()?;
        self.heal(former)?;
        self.pause(BREATH)?;
        self.expect_no_move("former owner back", &before);
        self.expect_no_packet_lost("former owner back: packets lost", &before)?;
        self.await_owner(owner)
    }

    fn drain_owner(&mut self, owner: u8, next: u8) -> Result<()> {
        self.console.chapter(&format!(
            "n{owner} is drained on purpose (pulsepath drain n{owner})"
        ));
        let before = self.before()?;
        self.mark("drain", owner);
        self.scene.drain(owner)?;
        self.await_move("drain", next, DRAIN_OUTAGE, &before)?;
        let strays = self.client()?.strays_since(&before.client);
        self.expect(
            "drain: packets that left with the client's own address",
            "0",
            &strays.to_string(),
            strays == 0,
        );
        let before = self.before()?;
        self.mark("undrain", owner);
        self.scene.undrain(owner)?;
        self.pause(BREATH)?;
        self.expect_no_move("undrain", &before);
        Ok(())
    }

    /// Cuts `first`, and while that one heals, `second`, which had taken over.
    fn cut_twice(&mut self, first: u8, second: u8) -> Result<()> {
        self.console.chapter(&format!(
            "A second failure while the first heals: n{first} is cut off, then n{second} as n{first} comes back"
        ));
        self.cut_and_measure("first failure", first, second)?;
        self.mark("mend links", first);
        self.scene.set_links(first, LinkState::Up)?;
        self.cut_and_measure("second failure", second, first)?;
        self.heal(second)?;
        self.pause(BREATH)
    }

    /// Cuts `owner` off, and expects that the egress IP goes to `next`.
    fn cut_and_measure(&mut self, what: &str, owner: u8, next: u8) -> Result<()> {
        let before = self.before()?;
        self.mark("cut links", owner);
        self.scene.cut(owner)?;
        self.await_move(what, next, CUT_OUTAGE, &before)
    }

    /// Gives `index` its links back, and waits until it knows that the egress IP is not its own any
    /// more.
    fn heal(&mut self, index: u8) -> Result<()> {
        let seen = self.watcher.mark();
        self.mark("mend links", index);
        self.scene.set_links(index, LinkState::Up)?;
        self.await_state(seen, index, State::Available)?;
        let address = EGRESS_IP.to_string();
        self.wait_for(&format!("n{index} has released {address}"), |story| {
            Ok((!story.scene.holds(index, &address)?).then_some(()))
        })
    }

    /// Waits until the egress IP is with `next` and the client is served again, and expects that it
    /// noticed no more than `allowed`, and not even that on its TCP connection.
    fn await_move(
        &mut self,
        what: &str,
        next: u8,
        allowed: Duration,
        before: &Before,
    ) -> Result<()> {
        self.await_owner(next)?;
        let (answered, exchanges) = (self.client()?.answered(), self.client()?.talk().count());
        self.wait_for("the client is served again", |story| {
            let client = story.client()?;
            let talks = client.talk().count() >= exchanges + NEXT_EXCHANGES
                || client.talk().ended().is_some();
            Ok((talks && client.answered() >= answered + SOME).then_some(()))
        })?;
        self.pause(BREATH)?;
        let client = self.client()?;
        let (outage, longest) = (
            client.outage_since(&before.client),
            client.talk().take_longest(),
        );
        let (words, lives) = match client.talk().ended() {
            None => (format!("yes, after {}", seconds(longest)), true),
            Some(reason) => (format!("no: {reason}"), false),
        };
        self.expect_time(
            &format!("{what}: outage, as the client sees it"),
            ..=allowed,
            outage,
        );
        self.expect(
            &format!("{what}: the TCP connection goes on"),
            "yes",
            &words,
            lives,
        );
        Ok(())
    }

    fn await_owner(&mut self, index: u8) -> Result<()> {
        let name = self.scene.node(index).name();
        self.wait_for(&format!("{name} owns the egress IP"), |story| {
            Ok(story.ownership.is_with(&name).then_some(()))
        })
    }

    fn expect_no_move(&mut self, what: &str, before: &Before) {
        let moves = self.moves() - before.moves;
        self.expect(
            &format!("{what}: moves of the egress IP"),
            "0",
            &moves.to_string(),
            moves == 0,
        );
    }

    /// Lets the last packets come back, then expects that none was lost.
    fn expect_no_packet_lost(&mut self, what: &str, before: &Before) -> Result<()> {
        let now = self.client()?.moment();
        self.pause(REPLY_WINDOW + SLACK)?;
        let packets = self.client()?.datagrams(&before.client, &now);
        self.expect_none_lost(what, packets);
        Ok(())
    }

    fn expect_one_source_and_one_connection(&mut self) -> Result<()> {
        let client = self.client()?;
        let (sources, exchanges) = (client.sources(), client.talk().count());
        let expected = IpAddr::from(EGRESS_IP);
        self.expect(
            "addresses that the server saw",
            &expected.to_string(),
            &in_words(&sources),
            sources == [expected],
        );
        self.console.tell(&format!(
            "one TCP connection all the time: {exchanges} exchanges"
        ));
        Ok(())
    }

    fn client(&self) -> Result<&Client> {
        self.client.as_ref().context("there is no client yet")
    }

    fn before(&self) -> Result<Before> {
        let client = self.client()?;
        // What is measured begins now.
        client.talk().take_longest();
        Ok(before(client, self.moves()))
    }

    /// How often the egress IP has got another owner.
    fn moves(&self) -> usize {
        self.ownership.history().len()
    }

    /// The egress IP's life.
    pub(super) fn egress_lane(&self) -> Lane {
        let owners = self.ownership.history().iter();
        let bands = owners.map(|owned| (owned.since, Band::Owner(owned.by.clone())));
        Lane {
            name: "egress IP".into(),
            role: EGRESS_IP.to_string(),
            bands: bands.collect(),
            answers: self.client.as_ref().map(Client::served).unwrap_or_default(),
        }
    }
}

/// The lane below the nodes'.
const EGRESS_LANE: usize = NODES as usize;

fn before(client: &Client, moves: usize) -> Before {
    Before {
        client: client.moment(),
        moves,
    }
}

fn in_words(addresses: &[IpAddr]) -> String {
    let words: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    words.join(", ")
}
