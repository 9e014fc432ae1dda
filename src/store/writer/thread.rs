//! The thread of a writer, and the detection of its death.

use std::thread::{Builder, JoinHandle};

use tokio::sync::watch;

use crate::store::contract::{Result, StoreError};

/// The thread. Dropping this waits for its end, so the queue, whose closing ends the thread, has to be dropped before.
pub(crate) struct WriterThread {
    /// Closed when the thread has died.
    life: watch::Receiver<()>,
    handle: Option<JoinHandle<()>>,
}

impl WriterThread {
    /// Starts the thread. It counts as alive until `work` drops its argument, which a panic does, too.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(watch::Sender<()>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (alive, life) = watch::channel(());
        let thread = Builder::new().name(name.into()).spawn(|| work(alive))?;
        Ok(Self {
            life,
            handle: Some(thread),
        })
    }

    pub(crate) fn alive(&self) -> Result<()> {
        self.life
            .has_changed()
            .map(|_| ())
            .map_err(|_| writer_stopped())
    }

    pub(crate) async fn died(&self) {
        let mut life = self.life.clone();
        while life.changed().await.is_ok() {}
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // Everything in the queue is written first.
            let _ = handle.join();
        }
    }
}

/// The error of everything that waits for a writer that has died.
pub(crate) fn writer_stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn its_death_is_detected_whether_it_ended_or_panicked() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        for panics in [false, true] {
            let (queue, jobs) = mpsc::channel::<()>();
            let thread = WriterThread::start("test", move |_alive| {
                while jobs.recv().is_ok() {}
                if panics {
                    resume_unwind(Box::new("without a message"));
                }
            });
            let thread = thread.expect("a thread");
            assert!(thread.alive().is_ok());
            drop(queue);
            for _ in 0..2 {
                runtime.block_on(thread.died());
            }
            assert!(matches!(thread.alive(), Err(StoreError::Unavailable(_))));
        }
    }

    #[test]
    fn dropping_it_waits_until_all_work_is_done() {
        let (queue, jobs) = mpsc::channel::<()>();
        let done: Arc<AtomicBool> = Arc::default();
        let thread = WriterThread::start("test", {
            let done = Arc::clone(&done);
            move |_alive| {
                while jobs.recv().is_ok() {}
                std::thread::sleep(Duration::from_millis(20));
                done.store(true, Ordering::Relaxed);
            }
        });
        drop(queue);
        drop(thread.expect("a thread"));
        assert!(done.load(Ordering::Relaxed));
    }
}
