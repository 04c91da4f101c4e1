//! How much is done at once.

use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// So much may be done at once for each CPU.
const PER_CPU: usize = 8;
/// Whatever takes longer goes on, but others need not wait for it: this is far longer than a
/// handshake or a call takes, and short for those who wait behind agents that hang. Where it takes
/// longer, since the machine is busy, it is twice the time of the last that succeeded, up to the
/// latter.
const PATIENCE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);

/// Bounds how many handshakes, or calls, are under way at once. They are work: were a thousand of
/// them begun together, each would take as long as all of them take, and none would be done within
/// its time.
pub(super) struct Lanes {
    room: Semaphore,
    /// How long the last one took that succeeded, microseconds.
    last: AtomicU64,
}

/// Room for one. Its time begins with it.
pub(super) struct Lane<'a> {
    lanes: &'a Lanes,
    /// `None`, were the room ever closed: then nothing would be bounded.
    room: Option<SemaphorePermit<'a>>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            room: Semaphore::new(cpus * PER_CPU),
            last: AtomicU64::new(0),
        }
    }

    /// Waits for its turn.
    pub(super) async fn enter(&self) -> Lane<'_> {
        Lane {
            lanes: self,
            room: self.room.acquire().await.ok(),
        }
    }
}

impl Lane<'_> {
    /// Does the work. The lane is free again when it is done, or when it takes too long.
    pub(super) async fn run<T, E>(self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let began = Instant::now();
        let last = Duration::from_micros(self.lanes.last.load(Ordering::Relaxed));
        let patience = (2 * last).clamp(*PATIENCE.start(), *PATIENCE.end());
        let mut work = pin!(work);
        let soon = timeout(patience, &mut work).await;
        drop(self.room);
        let done = match soon {
            Ok(done) => done,
            Err(_) => work.await,
        };
        if done.is_ok() {
            let took = began.elapsed().as_micros();
            let last = &self.lanes.last;
            last.store(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;

    use super::*;

    fn one() -> Lanes {
        Lanes {
            room: Semaphore::new(1),
            last: AtomicU64::new(0),
        }
    }

    async fn hang(lane: Lane<'_>) {
        let _ = lane.run(pending::<Result<(), Infallible>>()).await;
    }

    async fn time_behind_one_that_hangs(lanes: &Lanes) -> Duration {
        let began = Instant::now();
        let lane = lanes.enter().await;
        tokio::select! {
            () = hang(lane) => Duration::MAX,
            _ = lanes.enter() => began.elapsed(),
        }
    }

    #[tokio::test]
    async fn one_waits_for_the_other() {
        let lanes = one();
        let lane = lanes.enter().await;
        assert!(lanes.enter().now_or_never().is_none());
        lane.run(ready(Ok::<_, Infallible>(()))).await.unwrap();
        lanes.enter().await;
    }

    #[tokio::test]
    async fn who_hangs_keeps_others_waiting_for_a_moment_only() {
        let lanes = one();
        let waited = timeout(Duration::from_secs(20), time_behind_one_that_hangs(&lanes)).await;
        assert!(waited.is_ok());
    }

    #[tokio::test]
    async fn where_everything_is_slow_a_slow_one_keeps_its_lane() {
        let lanes = one();
        lanes.last.store(300_000, Ordering::Relaxed);
        let took = time_behind_one_that_hangs(&lanes).await;
        assert!(took >= Duration::from_millis(600), "{took:?}");
    }
}
