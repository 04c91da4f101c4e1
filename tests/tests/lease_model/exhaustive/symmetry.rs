//! Witnesses differ in nothing but their number: states that differ only in which witness is which are one.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Small, WITNESSES};
use crate::{
    kernel::Right,
    letter::{Letter, Prober},
    witness::Instance,
};

impl Hash for Small {
    /// Hashes the state without its witnesses, and then what concerns each of them, in an order that does
    /// not depend on their numbers. Sets are not changed here, so slots go with witnesses.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut rest = self.world.clone();
        let votes = rest.nodes[0].kernel.take_votes();
        let sender = rest.letters.iter_mut().find_map(forget_sender);
        let mut each: Vec<u64> = WITNESSES
            .enumerate()
            .map(|(slot, host)| {
                let mut own = DefaultHasher::new();
                let mut witness = rest.nodes[host].witness.clone();
                witness.instance = witness.instance.on(0);
                (witness, votes[slot], sender == Some(host)).hash(&mut own);
                for view in rest
                    .controllers
                    .iter_mut()
                    .flat_map(|controller| &mut controller.views)
                {
                    let promise = view.promises[host].take().map(|(mut promise, basis)| {
                        promise.instance = promise.instance.on(0);
                        (promise, basis)
                    });
                    promise.hash(&mut own);
                }
                own.finish()
            })
            .collect();
        each.sort_unstable();
        rest.nodes.truncate(WITNESSES.start);
        (rest, each, self.faults).hash(state);
    }
}

/// Takes the witness's number out of a vote that is on its way.
fn forget_sender(letter: &mut Letter) -> Option<usize> {
    let Letter::Probe {
        from: Prober::Witness(host),
        request,
        ..
    } = letter
    else {
        return None;
    };
    let sender = std::mem::take(host);
    if let Some(request) = request {
        request.right = Right::Witness(Instance::first(0));
    }
    Some(sender)
}
