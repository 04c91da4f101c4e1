//! Something that goes on in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Does the same again and again, in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Repeatedly {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Repeatedly {
    /// Does `what`, and again, with so much time between.
    pub fn start(pause: Duration, mut what: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let repeat = move || {
            while !stopped.load(Ordering::Relaxed) {
                what();
                thread::sleep(pause);
            }
        };
        Self {
            stop,
            thread: Some(thread::spawn(repeat)),
        }
    }
}

impl Drop for Repeatedly {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has said why on standard error if it panicked.
            let _ = thread.join();
        }
    }
}
