//! A model of the rules that keep two nodes from ever using one egress IP (design, section 7), with
//! everything that can go wrong around them, and tests that it holds, and that no clause is there in vain.
//!
//! # What is modelled
//!
//! | file | what it is in the real system |
//! |---|---|
//! | `kernel` | RENEW and VOTE in the reflector; the fence; the maps that only a reboot loses |
//! | `agent` | how an agent takes and applies a push, step by step |
//! | `witness` | votes, floors, promises, and what restarts and losses of memory do to them |
//! | `controller`, `safe`, `decide` | election, term, RENEW; when an address is safe; what may be decided |
//! | `record` | what survives controllers: the record with its conditional writes, the election lock |
//! | `letter`, `delivery` | the network: letters arrive late, twice, in any order, or never |
//! | `time` | clocks whose rates differ by 1 % |
//! | `world`, `setup` | all of it together, the invariant, and clusters of several sizes |
//!
//! Everything is an action that may happen at any time: there are no timers, no health states, and any
//! node may be taken for unreachable. A process that is frozen between a decision and the send is a
//! letter that takes long; a node that is cut off, one whose letters stay on their way.
//!
//! The invariant: no two nodes have a fence that passes the same address ([`world::World::two_owners`]).
//!
//! What a RENEW or VOTE does to a lease is no model, but the code of the kernel programs (`kernel`).
//!
//! # How it is searched
//!
//! * `explore`: long random schedules (`schedule`, `plan`, `weather`) from a seed, with every fault, in
//!   several setups. A failing one prints its seed and what happened. `PULSEPATH_MODEL_SEEDS` searches longer.
//! * `exhaustive`: breadth first, every short schedule of a small cluster. `PULSEPATH_MODEL_MOVES` searches
//!   longer ones.
//! * `clauses`: each clause ([`rules::Clause`]) is switched off, and two owners must be found; and must not
//!   be found in the same schedules with the clause. Of those that nobody misses, that is shown instead.
//! * `liveness`: what must happen, so that the invariant does not hold because nothing ever moves.
//!
//! # What the model found
//!
//! Clauses that the rules need, and that the design did not say, or not precisely:
//!
//! * A longer L that was shortened counts for another 1.01 L (the longer one) after the agent confirmed the
//!   shorter ([`rules::Clause::LongLeaseOutlivesChange`]): the lease that it gave is still running.
//! * A witness that has lost its memory must not say that it has never voted for a promise asked of its
//!   predecessor: asks and answers name the instance ([`rules::Clause::PromiseNamesInstance`]), as designed.
//!   A restarted one that says its start needs no durable last votes at all.
//!
//! Clauses that nobody missed, because others say enough. They stay as a second line of defence:
//!
//! * A node's own vote ([`rules::Clause::OwnVoteExcluded`]), as the design says.
//! * The check for echoes in the future ([`rules::Clause::RenewChecksFuture`], `VoteChecksFuture`): within
//!   one incarnation no node has ever sent such a time.
//! * All that is said of slots and of the order of changes of set ([`rules::Clause::OldWitnessGoesFirst`],
//!   [`rules::Clause::NewWitnessTakesOldSlot`], [`rules::Clause::SetChangesWait`],
//!   [`rules::Clause::PlacingWaitsForSet`]), since the kernel counts the votes of each set by themselves.
//!   Where it kept the old witness's last vote beside the new one's, each of the last three was missed: the two
//!   made a majority, of which nobody had promised anything.
//! * Claiming the record ([`rules::Clause::ClaimsRecord`]), as long as every write is conditional on the
//!   version of one record that holds everything. With several objects that would have to be shown anew.
//!
//! # What is not modelled
//!
//! Packets around the fence, forged probes, a boot clock that stands still (all documented exceptions); a record in
//! several objects; key rotation; sections 5, 6 and 8.

mod agent;
mod clauses;
mod controller;
mod decide;
mod delivery;
mod exhaustive;
mod explore;
mod kernel;
mod letter;
mod liveness;
mod plan;
mod record;
mod rules;
mod safe;
mod schedule;
mod search;
mod setup;
mod time;
mod weather;
mod witness;
mod world;
