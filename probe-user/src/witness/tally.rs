//! What a witness counts.

/// What a witness does, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes that it probes all the time.
    pub watched: usize,
    /// Those among them that it votes for.
    pub voted_for: usize,
    /// Those among them that it has heard within the lease time.
    pub heard: usize,
    /// What it has counted.
    pub counts: Counts,
}

/// What a witness has counted since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Probes sent.
    pub probes: u64,
    /// Those among them that were votes.
    pub votes: u64,
    /// Genuine replies in time.
    pub replies: u64,
}
