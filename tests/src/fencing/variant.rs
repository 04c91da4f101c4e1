//! How nodes are fenced and probed while things go wrong.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::egress::{CLIENTS, CLIENTS_IPV6, EGRESS_IP, EGRESS_IPV6, Family, Setup};

/// How long leases last, where there are any.
pub const LEASE: Duration = Duration::from_secs(2);

/// How it is made sure that an old owner is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// It is not.
    None,
    /// By a lease that the controller alone extends.
    Strict,
    /// By a lease that witnesses extend, too.
    Quorum,
}

/// How the reflector is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// As generic XDP.
    Generic,
    /// At TCX.
    Tcx,
}

/// Where the fence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// First in the TCX chain.
    Tcx,
    /// In the clsact qdisc, as below Linux 6.6.
    Clsact,
}

/// All of that, and the egress IP's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// How old owners are fenced.
    pub fencing: Fencing,
    /// How probes are answered.
    pub attach: Attach,
    /// Where the fence is, if there is one.
    pub hook: Hook,
    /// Of the egress IP.
    pub family: Family,
}

impl Variant {
    /// Every way to attach something at least once.
    pub fn all(fencing: Fencing) -> [Self; 3] {
        let variant = |attach, hook, family| Self {
            fencing,
            attach,
            hook,
            family,
        };
        [
            variant(Attach::Generic, Hook::Tcx, Family::Ipv4),
            variant(Attach::Tcx, Hook::Tcx, Family::Ipv6),
            variant(Attach::Generic, Hook::Clsact, Family::Ipv4),
        ]
    }

    /// The egress IP.
    pub fn address(&self) -> IpAddr {
        match self.family {
            Family::Ipv4 => EGRESS_IP.into(),
            Family::Ipv6 => EGRESS_IPV6.into(),
        }
    }

    /// Four nodes, or five, so that more of them are witnesses than have anything else to do; the first
    /// two may own the egress IP, the controller is on the last one.
    pub(super) fn setup(&self) -> Setup {
        let nodes = match self.fencing {
            Fencing::Quorum => 5,
            Fencing::None | Fencing::Strict => 4,
        };
        let fencing = match self.fencing {
            Fencing::None => "fencing = 'none'".to_owned(),
            fencing => format!("fencing = '{fencing}'\nlease = '{}s'", LEASE.as_secs()),
        };
        let attach = match self.attach {
            Attach::Generic => "generic",
            Attach::Tcx => "tcx",
        };
        let hook = match self.hook {
            Hook::Tcx => "tcx",
            Hook::Clsact => "clsact",
        };
        let sources = match self.family {
            Family::Ipv4 => CLIENTS,
            Family::Ipv6 => CLIENTS_IPV6,
        };
        // A controller that suspects itself would not get so far as to ask witnesses.
        let guard = match self.fencing {
            Fencing::Quorum => "failover.max_unreachable = 1.0",
            Fencing::None | Fencing::Strict => "",
        };
        Setup {
            nodes,
            controller: nodes,
            settings: format!("{fencing}\nfailover.damping.count = 0\n{guard}"),
            agent_settings: format!("reflector.attach = '{attach}'\negress.fence = '{hook}'\n"),
            egress_ips: vec![self.address().to_string()],
            sources: vec![sources.to_owned()],
            ..Setup::default()
        }
    }
}

impl fmt::Display for Fencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Strict => "strict",
            Self::Quorum => "quorum",
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fencing,
            attach,
            hook,
            family,
        } = self;
        write!(
            f,
            "{fencing}, {attach:?} reflector, {hook:?} fence, {family:?}"
        )
    }
}
