//! What happens to the cluster.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use pulsepath_tests::egress::{PATIENCE, Stream};
use pulsepath_tests::kubernetes::{Installation, Ownership, TAGS};
use pulsepath_tests::report::Report;
use pulsepath_tests::{LinkState, within};

/// The longest that a client may wait for a new owner, by the chart's defaults.
const LONGEST_OUTAGE: Duration = Duration::from_millis(2400);
/// How long the API server is gone: far longer than a controller leads without it.
const API_SERVER_GONE: Duration = Duration::from_secs(60);

/// Tells it, and notes what was expected and what was measured.
pub(crate) struct Story<'a> {
    installation: &'a mut Installation,
    report: Report,
}

impl<'a> Story<'a> {
    pub(crate) fn new(installation: &'a mut Installation) -> Self {
        Self {
            installation,
            report: Report::default(),
        }
    }

    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// All of it.
    pub(crate) fn tell(&mut self) -> Result<()> {
        self.show(&["get", "nodes,pods", "--all-namespaces", "--output=wide"])?;
        self.chapter("A gateway for n1 and n2");
        self.installation.apply_gateway()?;
        let owner = self.installation.await_owner_other_than(None)?;
        self.show(&["get", "egw,nh", "--output=wide"])?;
        let second = self.cut(&owner)?;
        self.api_server_gone(&second)?;
        self.controllers_killed(&second)?;
        self.upgrade(&second)
    }

    fn cut(&mut self, owner: &Ownership) -> Result<Ownership> {
        let name = format!("n{}", owner.node);
        self.chapter(&format!("The owner, {name}, is cut off"));
        let stream = self.stream()?;
        self.installation
            .site()
            .set_links(owner.node, LinkState::Down)?;
        let second = self.installation.await_owner_other_than(Some(owner.node))?;
        stream.await_answers(1000, PATIENCE)?;
        let outage = stream.finish().longest_gap;
        self.report.check_time(
            "owner cut: outage, as the client sees it",
            ..=LONGEST_OUTAGE,
            outage,
        );
        self.show(&["get", "egw,nh", "--output=wide"])?;
        self.show(&[
            "get",
            "events",
            "--field-selector=reportingComponent=pulsepath-controller",
        ])?;
        self.chapter(&format!("{name} is back"));
        self.installation
            .site()
            .set_links(owner.node, LinkState::Up)?;
        self.installation.await_all_available()?;
        self.check_unmoved("former owner back", &second)?;
        Ok(second)
    }

    fn api_server_gone(&mut self, owner: &Ownership) -> Result<()> {
        self.chapter(&format!(
            "The API server is gone for {} s",
            API_SERVER_GONE.as_secs()
        ));
        self.undisturbed("API server gone", owner, |installation| {
            installation.site_mut().plane_mut().kill_api_server()?;
            sleep(API_SERVER_GONE);
            installation.site_mut().plane_mut().start_api_server()
        })
    }

    fn controllers_killed(&mut self, owner: &Ownership) -> Result<()> {
        self.chapter("Both controllers are killed, and their kubelets start them again");
        self.undisturbed("controllers killed", owner, |installation| {
            installation.kill_controllers(&[3, 4])?;
            within(PATIENCE, || installation.leader()).map_err(|reason| anyhow!(reason))?;
            Ok(())
        })
    }

    fn upgrade(&mut self, owner: &Ownership) -> Result<()> {
        self.chapter("helm upgrade, of agents and controllers together");
        self.undisturbed("upgrade", owner, |installation| {
            installation.upgrade(TAGS[1], &[])
        })
    }

    /// Does something by which the client must lose nothing, and the egress IP must not move.
    fn undisturbed(
        &mut self,
        what: &str,
        owner: &Ownership,
        act: impl FnOnce(&mut Installation) -> Result<()>,
    ) -> Result<()> {
        let stream = self.stream()?;
        let begun = Instant::now();
        act(self.installation)?;
        self.installation.await_all_available()?;
        println!("that took {:.1} s", begun.elapsed().as_secs_f64());
        let seen = stream.finish();
        let measured = format!("{} of {}", seen.lost(), seen.sent);
        self.report.check(
            &format!("{what}: packets lost"),
            "0",
            &measured,
            seen.lost() == 0,
        );
        self.check_unmoved(what, owner)
    }

    fn check_unmoved(&mut self, what: &str, owner: &Ownership) -> Result<()> {
        let is = self.installation.owner()?;
        let measured = format!("n{} since {}", is.node, is.since);
        let expected = format!("n{} since {}", owner.node, owner.since);
        self.report.check(
            &format!("{what}: owner"),
            &expected,
            &measured,
            is == *owner,
        );
        Ok(())
    }

    fn stream(&self) -> Result<Stream> {
        let external = self.installation.site().external();
        within(PATIENCE, || Stream::start(external)).map_err(|reason| anyhow!(reason))
    }

    fn show(&self, arguments: &[&str]) -> Result<()> {
        println!("$ kubectl {}", arguments.join(" "));
        println!("{}", self.installation.site().plane().kubectl(arguments)?);
        Ok(())
    }

    fn chapter(&self, title: &str) {
        println!("\n{title}");
    }
}
