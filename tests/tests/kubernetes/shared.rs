//! One installation for all tests of this program: to start one takes longer than any of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pulsepath_tests::kubernetes::Installation;

/// Two that may own egress IPs, and two for controllers.
const NODES: u8 = 4;

type Place = Mutex<Option<Installation>>;

/// Where the installation is; whoever waits for it keeps it alive.
static PLACE: Mutex<Weak<Place>> = Mutex::new(Weak::new());

/// Runs `test` when no other test has the installation. It begins with all nodes AVAILABLE and without
/// any gateway. If it panics, the installation says what there is to know, and the next test has a new
/// one.
pub(crate) fn with_installation(test: impl FnOnce(&mut Installation)) {
    let place = place();
    let mut place = lock(&place);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let installation = match place.take() {
            Some(installation) => place.insert(installation),
            None => place.insert(Installation::start("k8s", NODES).unwrap()),
        };
        installation.settle().unwrap();
        test(installation);
    }));
    if let Err(panic) = outcome {
        if let Some(installation) = place.take() {
            eprintln!("{}", installation.report());
        }
        resume_unwind(panic);
    }
}

fn place() -> Arc<Place> {
    let mut place = lock(&PLACE);
    place.upgrade().unwrap_or_else(|| {
        let new = Arc::default();
        *place = Arc::downgrade(&new);
        new
    })
}

/// A test that panics leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
