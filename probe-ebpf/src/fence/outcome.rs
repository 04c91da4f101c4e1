//! What became of a packet at the fence. Each outcome has its own counter in `FENCE_STATS`.

use super::claims::Family;

/// How a packet stands by the addresses that it claims; the greater of two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// None is guarded.
    Unguarded,
    /// Guarded, the node's own, and the lease is held.
    Own,
    /// Guarded, the node's own, and the lease is not held.
    NoLease,
    /// Guarded, and not the node's own.
    Shut,
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal,)*) => {
        /// What became of a packet; also the index of its counter in `FENCE_STATS`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum FenceOutcome {
            $($(#[doc = $doc])* $name,)*
        }

        impl FenceOutcome {
            /// Every outcome, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Name in metrics and texts.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

outcomes! {
    /// Claims no guarded address.
    Unguarded = "unguarded",
    /// IPv4 from an address of the node's own, under the lease.
    PassedIpv4 = "passed_ipv4",
    /// IPv6 from an address of the node's own, under the lease.
    PassedIpv6 = "passed_ipv6",
    /// ARP that claims an address of the node's own, under the lease.
    PassedArp = "passed_arp",
    /// Neighbour discovery that claims an address of the node's own, under the lease.
    PassedNd = "passed_nd",
    /// IPv4 from an address of the node's own, without a lease: dropped.
    NoLeaseIpv4 = "no_lease_ipv4",
    /// IPv6 from an address of the node's own, without a lease: dropped.
    NoLeaseIpv6 = "no_lease_ipv6",
    /// ARP that claims an address of the node's own, without a lease: dropped.
    NoLeaseArp = "no_lease_arp",
    /// Neighbour discovery that claims an address of the node's own, without a lease: dropped.
    NoLeaseNd = "no_lease_nd",
    /// IPv4 from an address that belongs elsewhere: dropped.
    ShutIpv4 = "shut_ipv4",
    /// IPv6 from an address that belongs elsewhere: dropped.
    ShutIpv6 = "shut_ipv6",
    /// ARP that claims an address that belongs elsewhere: dropped.
    ShutArp = "shut_arp",
    /// Neighbour discovery that claims an address that belongs elsewhere: dropped.
    ShutNd = "shut_nd",
}

impl FenceOutcome {
    /// Number of outcomes, and of counters.
    pub const COUNT: usize = Self::ALL.len();

    #[inline(always)]
    pub(super) const fn new(family: Family, standing: Standing) -> Self {
        match (standing, family) {
            (Standing::Unguarded, _) => Self::Unguarded,
            (Standing::Own, Family::Ipv4) => Self::PassedIpv4,
            (Standing::Own, Family::Ipv6) => Self::PassedIpv6,
            (Standing::Own, Family::Arp) => Self::PassedArp,
            (Standing::Own, Family::Nd) => Self::PassedNd,
            (Standing::NoLease, Family::Ipv4) => Self::NoLeaseIpv4,
            (Standing::NoLease, Family::Ipv6) => Self::NoLeaseIpv6,
            (Standing::NoLease, Family::Arp) => Self::NoLeaseArp,
            (Standing::NoLease, Family::Nd) => Self::NoLeaseNd,
            (Standing::Shut, Family::Ipv4) => Self::ShutIpv4,
            (Standing::Shut, Family::Ipv6) => Self::ShutIpv6,
            (Standing::Shut, Family::Arp) => Self::ShutArp,
            (Standing::Shut, Family::Nd) => Self::ShutNd,
        }
    }

    /// Whether the packet is dropped.
    #[inline(always)]
    pub const fn is_fenced(self) -> bool {
        self as u32 >= Self::NoLeaseIpv4 as u32
    }
}
