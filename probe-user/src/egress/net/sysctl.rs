//! Sysctls that egress IPs need, and what they were before.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::NetError;

/// What each sysctl was before an agent changed it, by its path below `/proc/sys`.
pub(crate) type Remembered = BTreeMap<String, String>;

/// Answer an ARP request only on the interface that has the address. The kernel goes by the
/// interface on which a request *arrives*, so it has to hold for all of them.
const ARP_IGNORE: &str = "net/ipv4/conf/all/arp_ignore";
const FORWARD_IPV4: &str = "net/ipv4/ip_forward";
const FORWARD_IPV6: &str = "net/ipv6/conf/all/forwarding";

/// A value that a sysctl has to have at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    path: String,
    value: u32,
    /// Whether the agent may set it.
    may_set: bool,
    /// Whether it is the agent's alone, so that it is put back in the end. Somebody else may rely
    /// on forwarding by then.
    put_back: bool,
}

impl Need {
    fn new(path: impl Into<String>, value: u32) -> Self {
        Self {
            path: path.into(),
            value,
            may_set: true,
            put_back: true,
        }
    }

    fn is_met(&self, present: &str) -> bool {
        let present: Option<u32> = present.trim().parse().ok();
        present.is_some_and(|it| it >= self.value)
    }
}

/// What IPv4 egress IPs on the interface `link` need: that other interfaces do not answer for them,
/// and that the node does not claim them when it asks for a neighbour.
pub(crate) fn for_ipv4(link: &str) -> [Need; 2] {
    let announce = format!("net/ipv4/conf/{}/arp_announce", link.replace('.', "/"));
    [Need::new(ARP_IGNORE, 1), Need::new(announce, 2)]
}

/// What forwarding needs. IPv6's is only checked: setting it makes the kernel ignore router
/// advertisements, which may be where the node has its default route from.
pub(crate) fn for_forwarding(ipv4: bool, ipv6: bool) -> Vec<Need> {
    let mut needs = Vec::new();
    if ipv4 {
        needs.push(Need {
            put_back: false,
            ..Need::new(FORWARD_IPV4, 1)
        });
    }
    if ipv6 {
        needs.push(Need {
            may_set: false,
            ..Need::new(FORWARD_IPV6, 1)
        });
    }
    needs
}

/// Sees to it that `needs` are met, remembering what was there before. Without `set` they are only
/// checked. Returns what is not met, for people.
pub(crate) fn meet(needs: &[Need], set: bool, remembered: &mut Remembered) -> Vec<String> {
    let unmet = needs
        .iter()
        .filter_map(|need| meet_one(need, set, remembered).err());
    unmet.collect()
}

fn meet_one(need: &Need, set: bool, remembered: &mut Remembered) -> Result<(), String> {
    let present = read(&need.path).map_err(|error| in_words(&error))?;
    if need.is_met(&present) {
        return Ok(());
    }
    let (name, value) = (need.path.replace('/', "."), need.value);
    if !need.may_set || !set {
        return Err(format!(
            "{name} is {}, and has to be {value}",
            present.trim()
        ));
    }
    if need.put_back {
        // What an earlier agent found is older than what it wrote.
        let before = present.trim().to_owned();
        remembered.entry(need.path.clone()).or_insert(before);
    }
    write(&need.path, &value.to_string()).map_err(|error| in_words(&error))
}

/// Puts back what was there before. Those of interfaces that are gone are forgotten.
pub(crate) fn restore(remembered: &mut Remembered) -> Result<(), NetError> {
    for (path, value) in std::mem::take(remembered) {
        if full(&path).exists() {
            write(&path, &value)?;
        }
    }
    Ok(())
}

fn full(path: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(path)
}

fn read(path: &str) -> Result<String, NetError> {
    fs::read_to_string(full(path)).map_err(|source| NetError::Sysctl {
        path: path.to_owned(),
        action: "read",
        source,
    })
}

fn write(path: &str, value: &str) -> Result<(), NetError> {
    fs::write(full(path), value).map_err(|source| NetError::Sysctl {
        path: path.to_owned(),
        action: "write",
        source,
    })
}

fn in_words(error: &NetError) -> String {
    crate::egress::in_words(error)
}
