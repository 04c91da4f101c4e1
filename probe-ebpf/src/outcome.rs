//! What became of a packet. Each outcome has its own counter in `REFLECT_STATS`, and decides the
//! verdict.

/// What the kernel does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leave it, untouched, to the network stack.
    Pass,
    /// Discard it without an answer.
    Drop,
    /// Send it back, rewritten into the reply.
    Reply,
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal => $verdict:ident,)*) => {
        /// What became of a packet; also the index of its counter in `REFLECT_STATS`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Outcome {
            $($(#[doc = $doc])* $name,)*
        }

        impl Outcome {
            /// Every outcome, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What follows for the packet.
            #[inline(always)]
            pub const fn verdict(self) -> Verdict {
                match self {
                    $(Self::$name => Verdict::$verdict,)*
                }
            }

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
    /// Not a probe of any kind: other traffic.
    Unrelated = "unrelated" => Pass,
    /// To a probe port, but not to one of the node's management addresses.
    OtherAddress = "other_address" => Pass,
    /// To the probe port, without our TLV, while plain STAMP is off.
    Foreign = "foreign" => Pass,
    /// The agent has not configured the reflector yet.
    Unconfigured = "unconfigured" => Pass,
    /// An authenticated probe that asks for nothing else, answered.
    Answered = "answered" => Reply,
    /// A RENEW that was honoured, answered.
    AnsweredRenew = "answered_renew" => Reply,
    /// A VOTE that was honoured, answered.
    AnsweredVote = "answered_vote" => Reply,
    /// A probe that is answered, but whose RENEW or VOTE is meant for another incarnation.
    LeaseOtherIncarnation = "lease_other_incarnation" => Reply,
    /// The same, echoing no time of the node's, or one in the future.
    LeaseWrongEcho = "lease_wrong_echo" => Reply,
    /// The same, meant for an assignment that the node has not applied yet.
    LeaseOldEpoch = "lease_old_epoch" => Reply,
    /// A VOTE of whoever is no witness of the node's, answered all the same.
    LeaseUnknownWitness = "lease_unknown_witness" => Reply,
    /// A RENEW or VOTE that asks for no time, or at a node that may have no lease; answered.
    LeaseNotGranted = "lease_not_granted" => Reply,
    /// RENEW and VOTE at once, RENEW by a witness, or VOTE by none; answered.
    LeaseContradiction = "lease_contradiction" => Reply,
    /// A plain STAMP packet, answered.
    AnsweredStamp = "answered_stamp" => Reply,
    /// An S-BFD packet, answered.
    AnsweredSbfd = "answered_sbfd" => Reply,
    /// Our TLV in a packet of another size.
    WrongSize = "wrong_size" => Drop,
    /// Our TLV with a version, or a TLV length, that this program does not know.
    WrongVersion = "wrong_version" => Drop,
    /// A reply, or a request whose U flag is not set as a request has it.
    NotARequest = "not_a_request" => Drop,
    /// Meant for another node.
    WrongTarget = "wrong_target" => Drop,
    /// Signed with a key id that the node does not have.
    UnknownKey = "unknown_key" => Drop,
    /// The MAC is not the key's.
    WrongMac = "wrong_mac" => Drop,
    /// From an address or port that no answer may go to: multicast, broadcast, unspecified, port 0.
    WrongSource = "wrong_source" => Drop,
    /// Plain STAMP or S-BFD from a source that the configuration does not list.
    SourceNotAllowed = "source_not_allowed" => Drop,
    /// Plain STAMP shorter than the 44 bytes of the base packet: never padded up.
    ShortStamp = "short_stamp" => Drop,
    /// Plain STAMP longer than the reflector can answer.
    LongStamp = "long_stamp" => Drop,
    /// Plain STAMP or S-BFD from a reflector's own port: answering could loop for ever.
    FromReflector = "from_reflector" => Drop,
    /// S-BFD that breaks a rule of RFC 5880 section 6.8.6.
    MalformedSbfd = "malformed_sbfd" => Drop,
    /// S-BFD with the Demand bit clear: from a reflector (RFC 7880 section 7.2.3).
    SbfdNotDemand = "sbfd_not_demand" => Drop,
    /// S-BFD for a discriminator that is not the node's.
    SbfdDiscriminator = "sbfd_discriminator" => Drop,
}

impl Outcome {
    /// Number of outcomes, and of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// The outcome whose counter has this index.
    #[inline(always)]
    pub const fn from_index(index: u32) -> Option<Self> {
        if index < Self::COUNT as u32 {
            // SAFETY: `repr(u32)`, and the discriminants are 0 to COUNT - 1.
            Some(unsafe { core::mem::transmute::<u32, Self>(index) })
        } else {
            None
        }
    }

    /// Whether a RENEW or VOTE was honoured.
    #[inline(always)]
    pub const fn honoured(self) -> bool {
        matches!(self, Self::AnsweredRenew | Self::AnsweredVote)
    }
}
