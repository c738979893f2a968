//! The thread that writes the file. It collects the records every few milliseconds, so that the file of
//! a killed job lacks little.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{unbounded, Receiver, Sender};

use super::json;
use super::ring::Ring;
use errors::{Error, Result};
use os::descriptors::GuardedFd;
use os::files;

const PAUSE: Duration = Duration::from_millis(20);
/// The pause after a round that found a ring fuller than [`BUSY`].
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// A share of a ring: see [`SHORT_PAUSE`].
const BUSY: f64 = 0.05;
/// Text is written to the file when it has this many bytes.
const WRITE_BYTES: usize = 1 << 16;
/// The most threads that are recorded at a time; records of others are dropped.
const MOST_RINGS: usize = 512;

/// The text before the first line.
const FIRST: &str = "[\n";

/// The text after the last line. It is written each time, and the next line is written over it: so the file of a killed
/// job is whole.
const LAST: &str = "\n]\n";

/// What the writer has to take over, beside the records.
#[derive(Debug)]
enum Update {
    /// One more ring.
    Ring(Arc<Ring>),
    /// The name of a thread, by number.
    Name(u32, String),
    /// Metadata of the job.
    Metadata(String, String),
    /// The file is to be closed.
    Finish,
}

/// All rings, for reuse.
#[derive(Debug, Default)]
struct RingPool {
    rings: Vec<Arc<Ring>>,
    /// The number of rings, including those being allocated.
    made: usize,
    /// The number of threads so far.
    threads: u32,
}

/// The writer. Ends with [`TraceWriter::finish`] or when it is dropped.
#[derive(Debug)]
pub(crate) struct TraceWriter {
    updates: Sender<Update>,
    pool: Mutex<RingPool>,
    /// Records of threads without a ring.
    refused: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that owns the thread.
    owner: u32,
}

impl TraceWriter {
    /// Starts writing the trace of process `process` to `file`, which messages call `path`.
    pub(crate) fn start(file: File, path: PathBuf, process: u32) -> Result<TraceWriter> {
        // The file of a job that is killed at once is whole, too. A failure shows again with the first record.
        let _ = file.write_all_at([FIRST, LAST].concat().as_bytes(), 0);
        let (updates, to_apply) = unbounded();
        let refused = Arc::new(AtomicU64::new(0));
        let output = TraceFile {
            updates: to_apply,
            refused: refused.clone(),
            file: GuardedFd::new(file),
            path,
            process,
            text: String::new(),
            end: 0,
            separator: FIRST,
            broken: false,
            rings: Vec::new(),
            reported: 0,
        };
        let builder = Builder::new().name("veloc-trace".to_owned());
        let thread = os::threads::unsignalled(|| builder.spawn(move || output.write_all()))
            .map_err(|error| Error::system("starting the trace's writer", &error))?;
        let (pool, thread) = (Mutex::default(), Mutex::new(Some(thread)));
        Ok(TraceWriter { updates, pool, refused, thread, owner: std::process::id() })
    }

    /// Gives the calling thread a ring, and its number in the file. `None`: there are too many threads,
    /// or the writer has ended.
    pub(crate) fn register_thread(&self) -> Option<(Arc<Ring>, u32)> {
        let mut pool = self.pool();
        let free = pool.rings.iter().find(|ring| ring.take()).cloned();
        if free.is_none() && pool.made >= MOST_RINGS {
            return None;
        }
        pool.threads += 1;
        let number = pool.threads;
        if let Some(ring) = free {
            return Some((ring, number));
        }
        pool.made += 1;
        drop(pool);
        // Allocated outside the lock.
        let ring = Arc::new(Ring::taken());
        self.updates.send(Update::Ring(ring.clone())).ok()?;
        self.pool().rings.push(ring.clone());
        Some((ring, number))
    }

    fn pool(&self) -> MutexGuard<'_, RingPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of rings.
    #[cfg(test)]
    pub(crate) fn rings(&self) -> usize {
        self.pool().made
    }

    /// Counts a record of a thread without a ring.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the name of a thread.
    pub(crate) fn name(&self, thread: u32, name: &str) {
        self.tell(Update::Name(thread, name.to_owned()));
    }

    /// Adds metadata of the job.
    pub(crate) fn metadata(&self, key: &str, value: String) {
        self.tell(Update::Metadata(key.to_owned(), value));
    }

    fn tell(&self, update: Update) {
        // A writer that has ended hears nothing more, and nothing is kept for it.
        let _ = self.updates.send(update);
    }

    /// Writes all records, and closes the file. Later records are lost. Does nothing in a forked child,
    /// as the file is its parent's.
    pub(crate) fn finish(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.owner != std::process::id() {
            // A forked child has no such thread, so it can be neither joined nor detached.
            return std::mem::forget(thread);
        }
        if let Some(thread) = thread {
            self.tell(Update::Finish);
            thread.thread().unpark();
            for what in os::threads::join([thread], os::threads::JOIN_TIMEOUT) {
                log::error!("{what}");
            }
            self.pool().rings.clear();
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The file being written, owned by the writer's thread.
struct TraceFile {
    updates: Receiver<Update>,
    refused: Arc<AtomicU64>,
    file: GuardedFd<File>,
    path: PathBuf,
    process: u32,
    text: String,
    /// Where the next line goes in the file.
    end: u64,
    /// The text before the next line.
    separator: &'static str,
    broken: bool,
    rings: Vec<Arc<Ring>>,
    /// The number of dropped records that the file reports.
    reported: u64,
}

impl TraceFile {
    fn write_all(mut self) {
        self.text.push('[');
        self.flush();
        self.end = 0;
        loop {
            // First, so that all records before the request to finish are collected.
            let goes_on = self.apply_updates();
            let busiest = self.collect();
            if !goes_on {
                break;
            }
            std::thread::park_timeout(if busiest > BUSY { SHORT_PAUSE } else { PAUSE });
        }
        if self.reported > 0 {
            log::warn!(
                "the trace {} lacks {} records: they came faster than they could be written, or \
                 from more than {MOST_RINGS} threads at a time",
                self.path.display(),
                self.reported
            );
        }
        if let Ok(file) = self.file.get() {
            files::unlock_exclusive(file);
        }
    }

    /// One round. Returns the share in use of the fullest ring.
    fn collect(&mut self) -> f64 {
        let rings = std::mem::take(&mut self.rings);
        let mut busiest: f64 = 0.0;
        for ring in &rings {
            let used = ring.drain(|mut entry| {
                self.write_separator();
                json::line(&mut self.text, self.process, &mut entry);
                if self.text.len() >= WRITE_BYTES {
                    self.flush();
                }
            });
            busiest = busiest.max(used);
        }
        let dropped = rings.iter().map(|ring| ring.dropped()).sum::<u64>();
        let dropped = dropped + self.refused.load(Ordering::Relaxed);
        self.rings = rings;
        if dropped != self.reported {
            self.reported = dropped;
            self.metadata(0, "veloc", &[("dropped", &dropped.to_string())]);
        }
        self.flush();
        busiest
    }

    /// False: the file is to be closed.
    fn apply_updates(&mut self) -> bool {
        while let Ok(update) = self.updates.try_recv() {
            match update {
                Update::Ring(ring) => self.rings.push(ring),
                Update::Name(thread, name) => {
                    self.metadata(thread, "thread_name", &[("name", &name)]);
                }
                Update::Metadata(key, value) => {
                    self.metadata(0, "veloc", &[(&key, &value)]);
                    // Metadata that viewers show beside the process id.
                    match key.as_str() {
                        "process" => self.metadata(0, "process_name", &[("name", &value)]),
                        "warning" => self.metadata(0, "process_labels", &[("labels", &value)]),
                        _ => {}
                    }
                }
                Update::Finish => return false,
            }
        }
        true
    }

    fn metadata(&mut self, thread: u32, name: &str, arguments: &[(&str, &str)]) {
        self.write_separator();
        json::metadata(&mut self.text, self.process, thread, name, arguments);
    }

    fn write_separator(&mut self) {
        self.text.push_str(self.separator);
        self.separator = ",\n";
    }

    fn flush(&mut self) {
        if !self.broken && !self.text.is_empty() {
            let len = self.text.len() as u64;
            self.text.push_str(LAST);
            let file = self.file.get();
            match file.and_then(|file| file.write_all_at(self.text.as_bytes(), self.end)) {
                Ok(()) => self.end += len,
                Err(error) => {
                    log::warn!("the trace {} ends here: {error}", self.path.display());
                    self.broken = true;
                }
            }
        }
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk ends the file, not the job.
    #[test]
    fn what_cannot_be_written_keeps_nobody_waiting() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = TraceWriter::start(full, "/dev/full".into(), 1).unwrap();
        writer.metadata("key", "value".to_owned());
        let (_ring, number) = writer.register_thread().unwrap();
        writer.name(number, "thread");
        writer.finish();
        writer.finish();
    }

    /// A forked child keeps the file open.
    #[test]
    fn a_file_that_is_whole_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let file = files::create_exclusive(&path).unwrap().unwrap();
        let _of_a_child = file.try_clone().unwrap();
        let writer = TraceWriter::start(file, path.clone(), 1).unwrap();
        assert!(files::create_exclusive(&path).unwrap().is_none(), "it is being written");
        writer.finish();
        assert!(files::create_exclusive(&path).unwrap().is_some());
    }

    #[test]
    fn a_thread_too_many_gets_no_ring_and_is_told_of() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = TraceWriter::start(file.reopen().unwrap(), file.path().into(), 1).unwrap();
        let (ring, _) = writer.register_thread().unwrap();
        writer.pool().made = MOST_RINGS;
        assert!(writer.register_thread().is_none());
        writer.count_refused();
        ring.give_back();
        assert!(writer.register_thread().is_some(), "one is free");
        writer.finish();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.contains(r#""dropped":"1""#), "{text}");
    }

    /// Catches updates that pile up after the writer has ended.
    #[test]
    fn nothing_is_kept_for_a_writer_that_has_ended() {
        let file = tempfile::tempfile().unwrap();
        let writer = TraceWriter::start(file, "a file".into(), 1).unwrap();
        let (ring, number) = writer.register_thread().unwrap();
        writer.finish();
        assert_eq!(Arc::strong_count(&ring), 1);
        assert!(writer.register_thread().is_none());
        writer.name(number, "thread");
        writer.metadata("key", "value".to_owned());
        assert!(writer.updates.is_empty() && writer.pool().rings.is_empty());
    }
}
