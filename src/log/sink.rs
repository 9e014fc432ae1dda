//! Where lines wait and how they get out.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::counter::Counter;

/// How long a line waits at most before it is written.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the last lines are waited for. A pipe that nobody reads must not keep the process from its end.
const STALLED: Duration = Duration::from_secs(1);

/// Bytes that may wait in one buffer. A reader that is slower than that loses lines, and is told how many.
const ROOM: usize = 4 * 1024 * 1024;

/// Lines on their way to standard error.
#[derive(Debug)]
pub struct Sink {
    buffers: Arc<Mutex<Vec<Buffer>>>,
    lost: Arc<Counter>,
    stop: Option<Sender<()>>,
    /// Closed when all has been written after that.
    written: Receiver<()>,
}

/// A place to put lines: one for each thread that writes many, so that none waits for another.
#[derive(Clone, Debug)]
pub struct Buffer {
    waiting: Arc<Mutex<Waiting>>,
    /// Lines lost by all buffers of the sink.
    lost: Arc<Counter>,
}

#[derive(Debug, Default)]
struct Waiting {
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
                let mut room = Vec::new();
                loop {
                    let last = stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                    let buffers = all.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // Nobody reads the log any more: that is no reason to stop serving.
                    let _ = buffers
                        .iter()
                        .try_for_each(|buffer| buffer.write_to(&mut out, &mut room));
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
            waiting: Arc::default(),
            lost: Arc::clone(&self.lost),
        };
        self.buffers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(buffer.clone());
        buffer
    }

    /// How many lines have been lost.
    pub fn lost(&self) -> Arc<Counter> {
        Arc::clone(&self.lost)
    }
}

/// Writes what still waits, if somebody reads it.
impl Drop for Sink {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.written.recv_timeout(STALLED);
    }
}

impl Buffer {
    /// Takes one whole line.
    pub fn put(&self, line: &[u8]) {
        self.put_with(|out| out.extend_from_slice(line));
    }

    /// Takes one whole line, which `write` appends.
    pub fn put_with(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.bytes.len() >= ROOM {
            waiting.lost += 1;
            self.lost.add(1);
        } else {
            write(&mut waiting.bytes);
        }
    }

    /// Writes what waits. `room` is exchanged for it and comes back empty: neither side ever has to grow its memory again.
    fn write_to(&self, out: &mut impl Write, room: &mut Vec<u8>) -> io::Result<()> {
        room.clear();
        let lost = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut waiting.bytes, room);
            std::mem::take(&mut waiting.lost)
        };
        out.write_all(room)?;
        if lost > 0 {
            writeln!(
                out,
                "{{\"level\":\"WARN\",\"message\":\"log lines lost\",\"count\":{lost}}}"
            )?;
        }
        if room.is_empty() { Ok(()) } else { out.flush() }
    }
}

/// One call for each line, as `tracing-subscriber` makes it.
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
    fn what_waits_at_the_end_is_written_and_what_was_lost_is_counted() {
        let memory = Memory::default();
        let sink = Sink::to(memory.clone()).unwrap();
        sink.buffer().put(b"one\n");
        let full = sink.buffer();
        full.waiting.lock().unwrap().bytes = vec![b'\n'; ROOM];
        full.put(b"lost\n");
        assert_eq!(sink.lost().get(), 1);
        drop(sink);
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert!(written.starts_with("one\n"));
        assert!(!written.contains("lost\n") && written.contains("\"count\":1"));
    }
}
