//! The thread that writes lines.
//!
//! A full pipe stops only this thread. Lines beyond [`QUEUED_MAX`] are lost, and counted in the
//! next line.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Most lines that wait to be written.
const QUEUED_MAX: usize = 4_096;

/// How long the end of the process waits for the last lines.
const LAST_LINES_AFTER: Duration = Duration::from_secs(1);

/// The queue to the thread.
#[derive(Debug)]
pub(super) struct LineWriter {
    /// `None` after the end.
    queue: Mutex<Option<SyncSender<String>>>,
    lost: Arc<AtomicU64>,
    /// Closed when the thread ends.
    written: Mutex<Receiver<()>>,
}

impl LineWriter {
    /// Starts the thread, which writes to `output`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start<W: Write>(output: impl FnOnce() -> W + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = sync_channel::<String>(QUEUED_MAX);
        let (ended, written) = sync_channel(0);
        let lost = Arc::new(AtomicU64::new(0));
        let lost_lines = Arc::clone(&lost);
        thread::Builder::new().name("quire-log".to_owned()).spawn(move || {
            let mut output = output();
            for mut line in lines {
                match lost_lines.swap(0, Ordering::Relaxed) {
                    0 => line.push('\n'),
                    lost => line.push_str(&format!("\nquire: {lost} lines of the log were lost: its reader is slow\n")),
                }
                // A log that can't be written has no other place for its errors.
                let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
            }
            drop(ended);
        })?;
        Ok(LineWriter { queue: Mutex::new(Some(queue)), lost, written: Mutex::new(written) })
    }

    /// Queues a line, or counts it as lost.
    pub(super) fn write(&self, line: String) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_some_and(|queue| queue.try_send(line).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the queued lines, for a bounded time. Later lines are dropped.
    pub(super) fn end(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        // After the timeout, the process ends without the rest: the reader has stopped.
        let _ = written.recv_timeout(LAST_LINES_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Writes to a channel that the test reads, so a full channel stops the writer.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).expect("text");
            self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_stops_no_writer() {
        let (pipe, read) = mpsc::sync_channel(0);
        let writer = LineWriter::start(move || Pipe(pipe)).expect("a thread");
        // The thread holds one line at most, and the queue a bounded number.
        (0..QUEUED_MAX + 100).for_each(|number| writer.write(format!("line {number}")));
        let (mut written, mut lost) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| writer.end());
            for line in read.iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
                match line.strip_prefix("quire: ").and_then(|rest| rest.split(' ').next()) {
                    Some(count) => lost += count.parse::<usize>().expect("a count"),
                    None => written += 1,
                }
            }
        });
        assert_eq!(written + lost, QUEUED_MAX + 100, "every line is written or counted");
        assert!(lost >= 99, "{lost}");
    }
}
