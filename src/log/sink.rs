//! Buffers of log lines, and the thread that writes them.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
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
    lines: Arc<Mutex<Lines>>,
    /// Lines dropped by all buffers of the sink.
    lost: Arc<Counter>,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    lost: u64,
}

impl Sink {
    /// A sink that writes to standard error.
    pub fn stderr() -> io::Result<Self> {
        Self::to(io::stderr())
    }

    /// A sink that writes to `out`.
    pub fn to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let buffers: Arc<Mutex<Vec<Buffer>>> = Arc::default();
        let (stop, stopped) = mpsc::channel::<()>();
        let all = Arc::clone(&buffers);
        let (until_written, written) = mpsc::channel();
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || {
                let _until_written = until_written;
                let mut spare = Vec::new();
                loop {
                    let last =
                        stopped.recv_timeout(FLUSH_INTERVAL) != Err(RecvTimeoutError::Timeout);
                    let buffers = all.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // A log that nobody reads does not stop the server.
                    let _ = buffers
                        .iter()
                        .try_for_each(|buffer| buffer.write_to(&mut out, &mut spare));
                    if last {
                        return;
                    }
                }
            })?;
        Ok(Self {
            buffers,
            lost: Arc::default(),
            stop: Some(stop),
            written,
        })
    }

    /// A new buffer of this sink.
    pub fn buffer(&self) -> Buffer {
        let buffer = Buffer {
            lines: Arc::default(),
            lost: Arc::clone(&self.lost),
        };
        self.buffers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(buffer.clone());
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
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.bytes.len() >= CAPACITY {
            lines.lost += 1;
            self.lost.add(1);
        } else {
            write(&mut lines.bytes);
        }
    }

    /// Writes the buffered lines. They are swapped with `spare`, so that neither vector has to grow again.
    fn write_to(&self, out: &mut impl Write, spare: &mut Vec<u8>) -> io::Result<()> {
        spare.clear();
        let lost = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut lines.bytes, spare);
            std::mem::take(&mut lines.lost)
        };
        out.write_all(spare)?;
        if lost > 0 {
            writeln!(
                out,
                "{{\"level\":\"WARN\",\"message\":\"log lines lost\",\"count\":{lost}}}"
            )?;
        }
        if spare.is_empty() {
            Ok(())
        } else {
            out.flush()
        }
    }
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
        full.lines.lock().unwrap().bytes = vec![b'\n'; CAPACITY];
        full.put(b"lost\n");
        assert_eq!(sink.lost().get(), 1);
        drop(sink);
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(written.starts_with("one\n"));
        assert!(!written.contains("lost\n") && written.contains("\"count\":1"));
    }
}
