//! Chance, from a seed.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

pub(super) struct Chance {
    random: StdRng,
    /// How likely it is that a packet is lost.
    loss: f64,
}

impl Chance {
    pub(super) fn new(seed: u64, loss: f64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { random, loss }
    }

    pub(super) fn is_lost(&mut self) -> bool {
        self.random.random_bool(self.loss)
    }

    /// How likely it is that a probe is not answered, since it or its answer was lost.
    pub(super) fn unanswered(&self) -> f64 {
        1.0 - (1.0 - self.loss) * (1.0 - self.loss)
    }

    /// Whether it was the probe that was lost, of one that was not answered.
    pub(super) fn is_lost_of_unanswered(&mut self) -> bool {
        self.random.random_bool(self.loss / self.unanswered())
    }

    /// How often something fails to happen before it does, if it is so likely.
    pub(super) fn failures_before(&mut self, likely: f64) -> u64 {
        // Never 0, whose logarithm would be infinite.
        let uniform = 1.0 - self.random.random::<f64>();
        (uniform.ln() / (-likely).ln_1p()) as u64
    }

    /// So long a packet is on its way, in multiples of the first timeout, until it arrives over TCP:
    /// it is sent again whenever it was lost, after twice the time.
    pub(super) fn retransmissions(&mut self) -> u32 {
        let mut waited = 0;
        while self.is_lost() {
            waited = waited * 2 + 1;
        }
        waited
    }
}
