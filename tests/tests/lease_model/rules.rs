//! The clauses of the seven rules of design section 7, each with a switch.
//!
//! A clause that is switched off is weakened in the way its comment says. The tests in `clauses_*` switch
//! off one at a time, and expect two nodes to pass the same address.

/// One clause of a rule. The comment says what the model does when the clause is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Clause {
    // 1. RENEW
    /// Off: the kernel honours a RENEW that echoes another incarnation.
    RenewChecksIncarnation,
    /// Off: the kernel honours a RENEW whose echo lies in its future.
    RenewChecksFuture,
    /// Off: the kernel does not compare its applied epoch with the floor that a RENEW names.
    RenewChecksFloor,
    /// Off: the lease counts from the arrival of the RENEW, not from the echoed time.
    RenewCountsFromEcho,
    /// Off: the controller's RENEWs name no floor.
    RenewNamesFloor,
    /// Off: a RENEW may echo a reply that was received after the term's end (the process slept between
    /// its look at the clock and its look at the socket).
    RenewEchoesOwnTerm,
    /// Off: taking an address away leaves the floor where it was.
    TakingRaisesFloor,

    // 2. VOTE
    /// Off: the kernel honours a VOTE that echoes another incarnation.
    VoteChecksIncarnation,
    /// Off: the kernel honours a VOTE whose echo lies in its future.
    VoteChecksFuture,
    /// Off: the kernel does not compare its applied epoch with the floor that a VOTE names.
    VoteChecksFloor,
    /// Off: a vote counts for the witness's host, whatever instance cast it.
    VoteChecksInstance,
    /// Off: votes count from their arrival, not from the echoed time.
    VoteCountsFromEcho,
    /// Off: the newest vote alone extends the lease.
    VoteNeedsMajority,
    /// Off: the majority is taken of the witnesses that have voted, not of the whole set.
    MajorityOfWholeSet,
    /// Off: a node may be in its own set. (Documented: no counterexample.)
    OwnVoteExcluded,
    /// Off: a witness that restarts has forgotten its floors, and keeps its instance id.
    FloorsDurable,
    /// Off: a witness that lost its memory keeps its instance id.
    LossMakesNewInstance,
    /// Off: a restarted witness says that it never voted.
    RestartReportsStart,
    /// Off: a witness stores whatever floor it was asked for last.
    FloorsNeverDecrease,
    /// Off: a witness reports its last vote as a time of its own clock.
    AgesNotTimes,

    // 3. PROMISE
    /// Off: one promise is enough.
    PromiseNeedsMajority,
    /// Off: a majority of the newest recorded set is enough.
    PromiseOfEverySet,
    /// Off: a promise counts for the witness's host, whatever instance gave it.
    PromiseNamesInstance,
    /// Off: a promise of any floor counts.
    PromiseNamesFloor,
    /// Off: the agent adds a new witness before it removes the old one.
    OldWitnessGoesFirst,
    /// Off: a new witness gets a free slot instead of the slot of the one it replaces.
    NewWitnessTakesOldSlot,
    /// Off: the set changes again before the node has confirmed the last change.
    SetChangesWait,
    /// Off: an address is placed on a node with more than one unconfirmed change of set.
    PlacingWaitsForSet,

    // 4. SAFE
    /// Off: the controller's own RENEWs are not counted.
    SafeCountsRenews,
    /// Off: the agent's last confirmation is not counted.
    SafeCountsConfirmation,
    /// Off: the start of the term is not counted.
    SafeCountsTermStart,
    /// Off: the promising witnesses' last votes are not counted.
    SafeCountsVotes,
    /// Off: it is safe at once, not a lease later.
    SafeWaitsForLease,
    /// Off: L instead of 1.01 L.
    SafeAllowsForRates,
    /// Off: the newest L counts, not the largest that may be in force.
    SafeUsesLargestLease,
    /// Off: a longer L is forgotten when the agent confirms the shorter one, not 1.01 L after that.
    LongLeaseOutlivesChange,
    /// Off: any confirmation makes a release safe.
    ConfirmationNamesEpoch,

    // 5. RECORD
    /// Off: agents are told of owners before the record is written.
    OwnersRecordedFirst,
    /// Off: a raised floor stays in the controller's memory.
    FloorsRecorded,
    /// Off: agents are told of a changed set before the record is written.
    SetsRecordedFirst,
    /// Off: agents are told of a longer L before the record is written.
    LeaseRecordedFirst,
    /// Off: an address that the agent never confirmed is taken for never given.
    ToldCountsAsApplied,
    /// Off: a write succeeds whatever the record's version.
    WritesConditional,

    // 6. TERM
    /// Off: a controller that led once goes on for ever.
    ActsWithinTerm,
    /// Off: the term is judged from the arrival of the answer, not from before the request.
    TermFromBeforeRequest,
    /// Off: a new leader reads the record, and claims nothing.
    ClaimsRecord,
    /// Off: a restarted process goes on with the start of the term that its predecessor began.
    TermStartsWithProcess,
    /// Off: a new leader starts from what it remembers.
    StartsFromRecord,
    /// Off: a move is aborted after its record was written.
    AbortOnlyBeforeRecord,

    // 7. PUSH
    /// Off: the agent applies older assignments, too.
    RefusesOlder,
    /// Off: the agent applies assignments that were meant for another incarnation.
    RefusesOtherIncarnation,
    /// Off: removals take effect after everything else, the applied epoch included.
    RemovalsFirst,
    /// Off: the applied epoch is written first.
    EpochLast,
    /// Off: a changed incarnation frees what the node held.
    RebootFreesNothing,
    /// Off: a fresh load leaves addresses that it finds unguarded.
    FreshLoadShuts,
}

/// Which clauses are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    off: u64,
}

impl Rules {
    /// All of section 7.
    pub(crate) const DESIGN: Self = Self { off: 0 };

    /// The same rules with one clause weakened.
    #[must_use]
    pub(crate) const fn without(self, clause: Clause) -> Self {
        Self {
            off: self.off | 1 << clause as u64,
        }
    }

    /// Whether the clause is in force.
    pub(crate) const fn has(self, clause: Clause) -> bool {
        self.off & (1 << clause as u64) == 0
    }
}
