//! The thread that writes the file: it collects what the others have recorded, every few
//! milliseconds, so that little is missing in the file of a job that is killed.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::json;
use super::track::Track;
use crate::error::{Error, Result};
use crate::platform::files;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause after a round that found a ring fuller than [`BUSY`].
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// This share of a ring.
const BUSY: f64 = 0.05;
/// Text is written out when there is so much of it.
const WRITE_BYTES: usize = 1 << 16;
/// The most threads that are recorded at a time; what more record is dropped.
const MOST_THREADS: usize = 512;

/// What goes before the first line.
const FIRST: &str = "[\n";

/// What is to be written, beside the rings.
#[derive(Debug, Default)]
struct News {
    /// Rings of new threads.
    threads: Vec<Arc<Track>>,
    /// Names of threads, by number.
    names: Vec<(u32, String)>,
    /// Facts about the job.
    facts: Vec<(String, String)>,
    next_thread: u32,
    /// Threads whose ring is alive.
    alive: usize,
}

/// What recording threads and the writer share.
#[derive(Debug, Default)]
struct Desk {
    news: Mutex<News>,
    stop: AtomicBool,
    /// Records of threads that got no ring.
    refused: AtomicU64,
}

/// The writer. Ends with [`Writer::finish`] or when it is dropped.
#[derive(Debug)]
pub struct Writer {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts writing the trace of process `process` to `file`, which messages call `path`.
    pub fn start(file: File, path: PathBuf, process: u32) -> Result<Writer> {
        let desk = Arc::new(Desk::default());
        let page = Page {
            file,
            path,
            process,
            text: String::new(),
            separator: FIRST,
            broken: false,
            tracks: Vec::new(),
            lost: 0,
            told: 0,
        };
        let shared = desk.clone();
        let thread = Builder::new()
            .name("veloc-trace".to_owned())
            .spawn(move || page.write_all(&shared))
            .map_err(|error| Error::system("starting the trace's writer", &error))?;
        Ok(Writer { desk, thread: Mutex::new(Some(thread)) })
    }

    /// A ring for the calling thread. `None` if there are too many.
    pub fn enrol(&self) -> Option<Arc<Track>> {
        let mut news = self.news();
        if news.alive >= MOST_THREADS {
            return None;
        }
        news.alive += 1;
        news.next_thread += 1;
        let number = news.next_thread;
        drop(news);
        // Its memory is made outside of the lock.
        let track = Arc::new(Track::new(number));
        self.news().threads.push(track.clone());
        Some(track)
    }

    /// Counts a record of a thread that got no ring.
    pub fn refuse(&self) {
        self.desk.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Names a thread, or names it anew.
    pub fn name(&self, thread: u32, name: &str) {
        self.news().names.push((thread, name.to_owned()));
    }

    /// A fact about the job.
    pub fn fact(&self, key: &str, value: String) {
        self.news().facts.push((key.to_owned(), value));
    }

    /// Writes everything that was recorded before, and ends the file. Later records are lost.
    pub fn finish(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.desk.stop.store(true, Ordering::Release);
            thread.thread().unpark();
            if thread.join().is_err() {
                log::error!("the trace's writer panicked");
            }
        }
    }

    fn news(&self) -> std::sync::MutexGuard<'_, News> {
        self.desk.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The file under way, on the writer's thread.
struct Page {
    file: File,
    path: PathBuf,
    process: u32,
    text: String,
    /// What goes before the next line.
    separator: &'static str,
    broken: bool,
    /// Each ring with the name it was at.
    tracks: Vec<(Arc<Track>, String)>,
    /// Records dropped by threads that have ended.
    lost: u64,
    /// How many dropped records the file tells of.
    told: u64,
}

impl Page {
    fn write_all(mut self, desk: &Desk) {
        files::outlive_size_limit();
        loop {
            // Looked at first: what was recorded before the end was asked for is collected.
            let stop = desk.stop.load(Ordering::Acquire);
            let busiest = self.collect(desk);
            if stop {
                break;
            }
            std::thread::park_timeout(if busiest > BUSY { SHORT_PAUSE } else { PAUSE });
        }
        if self.told > 0 {
            log::warn!(
                "the trace {} lacks {} records: they came faster than they could be written",
                self.path.display(),
                self.told
            );
        }
        self.text.push_str(if self.separator == FIRST { "[\n]\n" } else { "\n]\n" });
        self.flush();
        files::release(&self.file);
    }

    /// One round. Returns the share in use of the fullest ring.
    fn collect(&mut self, desk: &Desk) -> f64 {
        self.read_news(desk);
        let mut tracks = std::mem::take(&mut self.tracks);
        let mut busiest: f64 = 0.0;
        for (track, name) in &mut tracks {
            let used = track.drain(name, |record, name| {
                self.separate();
                json::line(&mut self.text, self.process, track.number, record, name);
                if self.text.len() >= WRITE_BYTES {
                    self.flush();
                }
            });
            busiest = busiest.max(used);
        }
        let dropped = self.lost + tracks.iter().map(|(track, _)| track.dropped()).sum::<u64>();
        let before = tracks.len();
        tracks.retain_mut(|(track, _)| {
            // Nobody else has it: its thread has ended, and nothing can come any more.
            let ended = Arc::get_mut(track).is_some() && track.is_empty();
            self.lost += if ended { track.dropped() } else { 0 };
            !ended
        });
        let ended = before - tracks.len();
        self.tracks = tracks;
        desk.news.lock().unwrap_or_else(PoisonError::into_inner).alive -= ended;
        let dropped = dropped + desk.refused.load(Ordering::Relaxed);
        if dropped != self.told {
            self.told = dropped;
            self.metadata(0, "veloc", &[("dropped", &dropped.to_string())]);
        }
        self.flush();
        busiest
    }

    fn read_news(&mut self, desk: &Desk) {
        let (threads, names, facts) = {
            let mut news = desk.news.lock().unwrap_or_else(PoisonError::into_inner);
            let News { threads, names, facts, .. } = &mut *news;
            (std::mem::take(threads), std::mem::take(names), std::mem::take(facts))
        };
        self.tracks.extend(threads.into_iter().map(|track| (track, String::new())));
        for (number, name) in names {
            self.metadata(number, "thread_name", &[("name", &name)]);
        }
        for (key, value) in facts {
            self.metadata(0, "veloc", &[(&key, &value)]);
            // What viewers show of a process beside its number.
            match key.as_str() {
                "process" => self.metadata(0, "process_name", &[("name", &value)]),
                "warning" => self.metadata(0, "process_labels", &[("labels", &value)]),
                _ => {}
            }
        }
    }

    fn metadata(&mut self, thread: u32, name: &str, arguments: &[(&str, &str)]) {
        self.separate();
        json::metadata(&mut self.text, self.process, thread, name, arguments);
    }

    fn separate(&mut self) {
        self.text.push_str(self.separator);
        self.separator = ",\n";
    }

    fn flush(&mut self) {
        if !self.broken && !self.text.is_empty() {
            if let Err(error) = self.file.write_all(self.text.as_bytes()) {
                log::warn!("the trace {} ends here: {error}", self.path.display());
                self.broken = true;
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
        let writer = Writer::start(full, "/dev/full".into(), 1).unwrap();
        writer.fact("key", "value".to_owned());
        let track = writer.enrol().unwrap();
        writer.name(track.number, "thread");
        writer.finish();
        writer.finish();
    }

    /// Whoever was forked from this process has the file open, too, for as long as it lives.
    #[test]
    fn a_file_that_is_whole_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let file = files::create_alone(&path).unwrap().unwrap();
        let _of_a_child = file.try_clone().unwrap();
        let writer = Writer::start(file, path.clone(), 1).unwrap();
        assert!(files::create_alone(&path).unwrap().is_none(), "it is being written");
        writer.finish();
        assert!(files::create_alone(&path).unwrap().is_some());
    }

    #[test]
    fn a_thread_too_many_gets_no_ring() {
        let file = tempfile::tempfile().unwrap();
        let writer = Writer::start(file, "a file".into(), 1).unwrap();
        writer.news().alive = MOST_THREADS;
        assert!(writer.enrol().is_none());
        writer.news().alive = 0;
    }
}
