//! Buffers of log lines, and the thread that writes them.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::counter::Counter;

/// The longest time before a line is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for the last lines. A pipe that nobody reads must not prevent the process from exiting.
const FINAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The capacity of a buffer, in bytes. Lines beyond it are dropped and counted.
const CAPACITY: usize = 4 * 1024 * 1024;

/// The log's output.
#[derive(Debug)]
pub struct Sink {
    buffers: Arc<Mutex<Vec<Buffer>>>,
    lost: Arc<Counter>,
    stop: Option<Sender<()>>,
    /// Closed after the last lines have been written.
    written: Receiver<()>,
}

/// A buffer of lines: one for each thread that writes many, so that none waits for another.
#[derive(Clone, Debug)]
pub struct Buffer {
    lines: Arc<Mutex<Vec<u8>>>,
    /// Lines dropped by all buffers of the sink.
    lost: Arc<Counter>,
}

impl Sink {
    /// A sink that writes to standard error.
    pub fn stderr() -> io::Result<Self> {
        Self::to(io::stderr())
    }

    /// A sink that writes to `out`.
    pub fn to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let (until_written, written) = mpsc::channel();
        let sink = Self {
            buffers: Arc::default(),
            lost: Arc::default(),
            stop: Some(stop),
            written,
        };
        let (buffers, lost) = (Arc::clone(&sink.buffers), sink.lost());
        let write = move || {
            let _until_written = until_written;
            let (mut spare, mut reported) = (Vec::new(), 0);
            loop {
                let is_last =
                    stopped.recv_timeout(FLUSH_INTERVAL) != Err(RecvTimeoutError::Timeout);
                let buffers = lock(&buffers).clone();
                // A log that nobody reads does not stop the server.
                let _ = buffers
                    .iter()
                    .try_for_each(|buffer| buffer.write_to(&mut out, &mut spare))
                    .and_then(|()| report_lost(&mut out, &lost, &mut reported));
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(write)?;
        Ok(sink)
    }

    /// A new buffer of this sink.
    pub fn buffer(&self) -> Buffer {
        let buffer = Buffer {
            lines: Arc::default(),
            lost: Arc::clone(&self.lost),
        };
        lock(&self.buffers).push(buffer.clone());
        buffer
    }

    /// The number of dropped lines.
    pub fn lost(&self) -> Arc<Counter> {
        Arc::clone(&self.lost)
    }
}

/// Writes the remaining lines, unless standard error is stalled.
impl Drop for Sink {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.written.recv_timeout(FINAL_TIMEOUT);
    }
}

impl Buffer {
    /// Adds a line.
    pub fn put(&self, line: &[u8]) {
        self.put_with(|out| out.extend_from_slice(line));
    }

    /// Adds a line, which `write` appends.
    pub fn put_with(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = lock(&self.lines);
        if lines.len() >= CAPACITY {
            self.lost.add(1);
        } else {
            write(&mut lines);
        }
    }

    /// Writes the buffered lines. They are swapped with `spare`, so that neither vector has to grow again.
    fn write_to(&self, out: &mut impl Write, spare: &mut Vec<u8>) -> io::Result<()> {
        spare.clear();
        std::mem::swap(&mut *lock(&self.lines), spare);
        if spare.is_empty() {
            return Ok(());
        }
        out.write_all(spare)?;
        out.flush()
    }
}

/// Writes how many lines were dropped since the last report.
fn report_lost(out: &mut impl Write, lost: &Counter, reported: &mut u64) -> io::Result<()> {
    let count = lost.get() - *reported;
    if count == 0 {
        return Ok(());
    }
    *reported += count;
    writeln!(
        out,
        "{{\"level\":\"WARN\",\"message\":\"log lines lost\",\"count\":{count}}}"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `tracing-subscriber` makes one call for each line.
impl Write for Buffer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_lines_are_written_and_dropped_ones_are_counted() {
        let memory = Memory::default();
        let sink = Sink::to(memory.clone()).unwrap();
        sink.buffer().put(b"one\n");
        let full = sink.buffer();
        *full.lines.lock().unwrap() = vec![b'\n'; CAPACITY];
        full.put(b"lost\n");
        assert_eq!(sink.lost().get(), 1);
        drop(sink);
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(written.starts_with("one\n"));
        assert!(!written.contains("lost\n") && written.contains("\"count\":1"));
    }
}
