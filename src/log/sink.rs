//! Buffers of log lines, and the thread that writes them.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::events::RecentEvents;
use super::format::{self, LogFormat};
use crate::clock::{Clock, Timestamp};
use crate::counter::Counter;
use crate::mutex::{AlignedMutex, lock};

/// The longest time before a line is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// The time until a write is tried again, if standard error is non-blocking and its reader pauses.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Timeout for the last lines. A pipe that nobody reads must not prevent the process from exiting.
const FINAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The capacity of a buffer, in bytes. Lines beyond it are dropped and counted.
const CAPACITY: usize = 4 * 1024 * 1024;

/// The log's output.
pub struct Sink {
    buffers: Arc<Mutex<Vec<Buffer>>>,
    lost: Arc<Counter>,
    events: Arc<RecentEvents>,
    wake: SyncSender<()>,
    stop: Option<Sender<()>>,
    /// Closed after the last lines have been written.
    written: Receiver<()>,
}

/// A buffer of lines: one for each thread that writes many, so that none waits for another.
#[derive(Clone, Debug)]
pub struct Buffer {
    lines: Arc<AlignedMutex<Vec<u8>>>,
    /// Wakes the thread that writes, which sleeps while all buffers are empty.
    wake: SyncSender<()>,
    /// Lines that were lost, in all buffers of the sink: dropped because a buffer was full, or not written.
    lost: Arc<Counter>,
}

impl Sink {
    /// A sink that writes to standard error. Its own lines have this format.
    pub fn stderr(format: LogFormat, clock: Clock) -> io::Result<Self> {
        Self::to(io::stderr(), format, clock)
    }

    /// A sink that writes to `out`, which must not buffer. Its own lines have this format.
    pub fn to(
        out: impl Write + Send + 'static,
        format: LogFormat,
        clock: Clock,
    ) -> io::Result<Self> {
        // One message is enough, and none is lost: the thread looks at all buffers after it has received it.
        let (wake, woken) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::channel::<()>();
        let (until_written, written) = mpsc::channel();
        let sink = Self {
            buffers: Arc::default(),
            lost: Arc::default(),
            events: Arc::default(),
            wake,
            stop: Some(stop),
            written,
        };
        let (buffers, lost) = (Arc::clone(&sink.buffers), sink.lost());
        let write = move || {
            let _until_written = until_written;
            let (mut spare, mut reported) = (Vec::new(), 0);
            let mut out = Output {
                out,
                is_cut_off: false,
            };
            loop {
                // While a loss is not reported, the line that reports it is tried again at each interval.
                if lost.get() == reported {
                    let _ = woken.recv();
                }
                // Lines that follow soon are written together.
                let is_last =
                    stopped.recv_timeout(FLUSH_INTERVAL) != Err(RecvTimeoutError::Timeout);
                let buffers = lock(&buffers).clone();
                // A log that cannot be written does not stop the server.
                for buffer in &buffers {
                    buffer.write_to(&mut out, &mut spare);
                }
                let unreported = lost.get() - reported;
                if unreported > 0 {
                    let line = lost_line(unreported, format, clock.now());
                    if out.write_some(&line) == line.len() {
                        reported += unreported;
                    }
                }
                if is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("log".into());
        thread.spawn(write)?;
        Ok(sink)
    }

    pub fn buffer(&self) -> Buffer {
        let buffer = Buffer {
            lines: Arc::default(),
            wake: self.wake.clone(),
            lost: Arc::clone(&self.lost),
        };
        lock(&self.buffers).push(buffer.clone());
        buffer
    }

    /// The last events, if this is the sink that `log::init` was given.
    pub fn events(&self) -> Arc<RecentEvents> {
        Arc::clone(&self.events)
    }

    /// The number of lost lines: dropped because a buffer was full, or not written.
    pub fn lost(&self) -> Arc<Counter> {
        Arc::clone(&self.lost)
    }
}

/// Writes the remaining lines, unless standard error is stalled.
impl Drop for Sink {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.wake.try_send(());
        let _ = self.written.recv_timeout(FINAL_TIMEOUT);
    }
}

impl Buffer {
    pub fn put(&self, line: &[u8]) {
        self.put_with(|out| out.extend_from_slice(line));
    }

    /// Adds a line, which `write` appends.
    pub fn put_with(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = lock(&self.lines.0);
        if lines.len() >= CAPACITY {
            self.lost.add(1);
            return;
        }
        let is_first = lines.is_empty();
        write(&mut lines);
        drop(lines);
        if is_first {
            self.wake();
        }
    }

    /// Wakes the thread that writes. Called at most once per interval: until the buffered lines are written, no other is the first.
    #[cold]
    fn wake(&self) {
        // A message that is there already has the same effect.
        let _ = self.wake.try_send(());
    }

    /// Writes the buffered lines, and counts those that cannot be written. They are swapped with `spare`, so that neither vector has
    /// to grow again.
    fn write_to(&self, out: &mut Output<impl Write>, spare: &mut Vec<u8>) {
        spare.clear();
        std::mem::swap(&mut *lock(&self.lines.0), spare);
        if spare.is_empty() {
            return;
        }
        let unwritten = &spare[out.write_some(spare)..];
        let lost = unwritten.iter().filter(|byte| **byte == b'\n').count();
        self.lost.add(lost as u64);
    }
}

/// What the lines are written to.
struct Output<W> {
    out: W,
    /// Whether the rest of the last line could not be written.
    is_cut_off: bool,
}

impl<W: Write> Output<W> {
    /// Writes as many lines as possible. Returns the number of bytes written.
    fn write_some(&mut self, lines: &[u8]) -> usize {
        // Otherwise the first line would be appended to the one that was cut off, and a parser would lose both.
        if self.is_cut_off && self.write_bytes(b"\n") == 0 {
            return 0;
        }
        self.write_bytes(lines)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.out.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(more) => {
                    written += more;
                    self.is_cut_off = bytes[written - 1] != b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // As if it were blocking: meanwhile lines are buffered.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(_) => break,
            }
        }
        written
    }
}

fn lost_line(count: u64, format: LogFormat, now: Timestamp) -> Vec<u8> {
    let time = format::time(now);
    match format {
        LogFormat::Text => format!("{time}  WARN log lines lost count={count}\n"),
        LogFormat::Json => format!(
            "{}\n",
            json!({"timestamp": time, "level": "WARN", "message": "log lines lost", "count": count})
        ),
    }
    .into_bytes()
}

/// Takes events, each in one call of `tracing-subscriber`. An event is one line, even if the text of an error has several.
impl Write for Buffer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        match text.iter().any(u8::is_ascii_control) {
            true => self.put(&escaped(text)),
            false => self.put(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line without control characters, which could end it or be commands to a terminal.
fn escaped(text: &[u8]) -> Vec<u8> {
    let bytes = text.iter().flat_map(|byte| match byte {
        // The only control character in a line of JSON, where `\x7f` would be invalid.
        0x7f => b"\\u007f".to_vec(),
        _ if byte.is_ascii_control() => byte.escape_ascii().collect(),
        _ => vec![*byte],
    });
    bytes.chain(*b"\n").collect()
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
    fn an_event_is_one_line_whatever_its_fields_contain() {
        let memory = Memory::default();
        let sink = Sink::to(memory.clone(), LogFormat::Text, clock()).unwrap();
        let mut buffer = sink.buffer();
        buffer
            .write_all(b"error=a\nDETAIL: b \x1b[2J \xc3\xa9\n")
            .unwrap();
        buffer.write_all("error=é\n".as_bytes()).unwrap();
        drop((buffer, sink));
        let written = memory.0.lock().unwrap();
        let written = std::str::from_utf8(&written).unwrap();
        assert_eq!(written, "error=a\\nDETAIL: b \\x1b[2J é\nerror=é\n");
    }

    #[test]
    fn an_event_in_json_is_json_whatever_its_fields_contain() {
        let memory = Memory::default();
        let sink = Sink::to(memory.clone(), LogFormat::Json, clock()).unwrap();
        let mut buffer = sink.buffer();
        let event = serde_json::json!({"error": ('\0'..='\u{80}').collect::<String>()});
        buffer.write_all(format!("{event}\n").as_bytes()).unwrap();
        drop((buffer, sink));
        let written = memory.0.lock().unwrap();
        let text = written.strip_suffix(b"\n").unwrap();
        assert!(!text.iter().any(u8::is_ascii_control));
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(text).unwrap(),
            event
        );
    }

    #[test]
    fn the_last_lines_are_written_and_dropped_ones_are_counted() {
        for (format, expected) in [
            (
                LogFormat::Text,
                "2026-11-15T00:00:00.000Z  WARN log lines lost count=1\n",
            ),
            (
                LogFormat::Json,
                "{\"timestamp\":\"2026-11-15T00:00:00.000Z\",\"level\":\"WARN\",\
                 \"message\":\"log lines lost\",\"count\":1}\n",
            ),
        ] {
            let written = lose_one(format);
            assert!(written.starts_with("one\n"));
            assert!(!written.contains("lost\n"));
            assert_eq!(written.trim_start_matches("one\n").trim_start(), expected);
        }
    }

    /// What a sink that has lost a line writes.
    fn lose_one(format: LogFormat) -> String {
        let memory = Memory::default();
        let sink = Sink::to(memory.clone(), format, clock()).unwrap();
        sink.buffer().put(b"one\n");
        let full = sink.buffer();
        *full.lines.0.lock().unwrap() = vec![b'\n'; CAPACITY];
        full.put(b"lost\n");
        assert_eq!(sink.lost().get(), 1);
        drop(sink);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let full = Full::default();
        let sink = Sink::to(full.clone(), LogFormat::Text, clock()).unwrap();
        let buffer = sink.buffer();
        buffer.put(b"one\n");
        buffer.put(b"two\n");
        let lost = sink.lost();
        for _ in 0..1_000 {
            if lost.get() > 0 {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lost.get(), 1, "the first one was written");
        *full.room.lock().unwrap() = usize::MAX;
        drop(sink);
        let written = String::from_utf8(full.memory.0.lock().unwrap().clone()).unwrap();
        let report = "2026-11-15T00:00:00.000Z  WARN log lines lost count=1";
        assert_eq!(written, format!("one\ntw\n{report}\n"));
    }

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_secs(1_794_700_800))
    }

    /// A disk with room for a few bytes.
    #[derive(Clone)]
    struct Full {
        memory: Memory,
        room: Arc<Mutex<usize>>,
    }

    impl Default for Full {
        fn default() -> Self {
            Self {
                memory: Memory::default(),
                room: Arc::new(Mutex::new(6)),
            }
        }
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.room.lock().unwrap();
            if *room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let length = bytes.len().min(*room);
            *room -= length;
            self.memory.write(&bytes[..length])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
