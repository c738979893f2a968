//! What earlier jobs owe to persistent, on a worker of its own that comes and goes: a job that asks
//! for the checkpoints of a name has those copied that are in scratch and should be in persistent.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use super::shared::Shared;
use super::spool::about;
use crate::catalog::entry::FileTier;
use crate::erasure::parity::ParityFile;
use crate::error::{Error, Kind, Result};
use crate::metrics::{Cause, Hop};
use crate::sync::{Condvar, Mutex};
use crate::trace::Activity;

/// What is known of it. Its lock is taken after that of names, and before none.
#[derive(Debug, Default)]
pub struct Owed {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// Names that were asked for, and the newest version that the application was told of: what is
    /// newer has not come from all processes, and may be taken again in another way.
    known: HashMap<String, i32>,
    /// Those whose files have not been looked at, in the order of the asking.
    asked: VecDeque<String>,
    /// The versions in scratch that persistent lacks; and whether the application has cleaned them up
    /// since, so that they go from scratch as soon as persistent has them.
    versions: BTreeMap<(String, i32), bool>,
    /// Versions that this job has written to scratch since their name was asked for: persistent gets
    /// them in another way.
    own: HashSet<(String, i32)>,
    /// There is a worker.
    works: bool,
}

impl Owed {
    /// The application has been told of this version, or `restores` it; this job has taken it, if it
    /// is its `own`. Whether a worker has to be started for its name.
    fn ask(&self, name: &str, newest: i32, restores: bool, own: bool) -> bool {
        let mut now = self.now.lock();
        // What is this job's own tells nothing new of what others have left.
        if now.known.get(name).is_some_and(|known| restores || own || *known >= newest) {
            return false;
        }
        now.known.insert(name.to_owned(), newest);
        if !now.asked.iter().any(|asked| asked == name) {
            now.asked.push_back(name.to_owned());
        }
        !std::mem::replace(&mut now.works, true)
    }

    /// Whether a version that an earlier job has left must stay in scratch, as persistent may lack it.
    pub fn holds(&self, name: &str, version: i32) -> bool {
        let now = self.now.lock();
        now.asked.iter().any(|asked| asked == name)
            // Asked for each file that goes, while next to no job has anything to copy.
            || !now.versions.is_empty() && now.versions.contains_key(&(name.to_owned(), version))
    }

    /// This job has written a version to scratch, in place of what an earlier one has left.
    pub fn is_taken_again(&self, name: &str, version: i32) {
        let mut now = self.now.lock();
        if now.asked.is_empty() && now.versions.is_empty() {
            return;
        }
        let key = (name.to_owned(), version);
        now.versions.remove(&key);
        if now.asked.iter().any(|asked| asked == name) {
            now.own.insert(key);
        }
    }

    /// Has a version go from scratch when persistent has it. False: it is not owed, and can go now.
    fn doom(&self, name: &str, version: i32) -> bool {
        let mut now = self.now.lock();
        now.versions.get_mut(&(name.to_owned(), version)).map(|doomed| *doomed = true).is_some()
    }

    /// There is no worker any more.
    fn rest(&self) {
        self.now.lock().works = false;
        self.changed.notify_all();
    }

    /// Waits until there is nothing left to copy, or nothing can be.
    fn wait(&self) {
        let mut now = self.now.lock();
        while now.works {
            now = self.changed.wait(now);
        }
    }
}

impl Shared {
    /// The application has been told that this is the newest version of a name, or `restores` it.
    /// Whether a worker has to be started that copies what earlier jobs have not.
    pub(super) fn asks_for(&self, name: &str, newest: i32, restores: bool) -> bool {
        let config = &self.config;
        let wanted = config.persistent_interval.is_some() && !config.ephemeral;
        let both = self.files.has_scratch() && self.files.has_persistent();
        wanted && both && {
            let own = self.catalog.look(|state| state.has_taken(name, newest));
            self.owed.ask(name, newest, restores, own)
        }
    }

    /// Waits until what earlier jobs owe is copied, as far as it can be.
    pub fn await_owed(&self) {
        let _span = self.trace.span(Activity::Drain);
        let since = Instant::now();
        self.owed.wait();
        self.metrics.waited(Cause::Drain, since);
    }

    /// No worker could be started.
    pub(super) fn owes_on(&self) {
        self.owed.rest();
    }

    /// Has a version that is cleaned up go from scratch when persistent has it. False: persistent
    /// lacks nothing, and it can go now. The caller holds the lock of names.
    pub fn leaves_later(&self, name: &str, version: i32) -> bool {
        let is_asked = self.owed.now.lock().asked.iter().any(|asked| asked == name);
        if is_asked {
            self.look_for_owed(name);
            // Not before: a worker that finds neither a name nor a version goes.
            self.owed.now.lock().asked.retain(|asked| asked != name);
        }
        self.owed.doom(name, version)
    }

    /// Finds out what of a name is owed.
    fn look_for_owed(&self, name: &str) {
        let (interval, limit) = (self.config.persistent_interval, self.config.max_versions);
        match self.files.owed(name, interval, limit) {
            Ok(mut versions) => {
                // What this job has taken gets there by itself, if it is to.
                let taken = |version: &i32| self.catalog.look(|s| s.has_taken(name, *version));
                versions.retain(|version| !taken(version));
                let mut now = self.owed.now.lock();
                let newest = now.known.get(name).copied().unwrap_or(-1);
                let versions = versions.into_iter().filter(|version| *version <= newest);
                for key in versions.map(|version| (name.to_owned(), version)) {
                    if !now.own.contains(&key) {
                        now.versions.entry(key).or_default();
                    }
                }
            }
            Err(error) => {
                log::warn!("what persistent lacks of \"{name}\" is not looked for: {error}")
            }
        }
    }

    /// An error once the job ends: nothing of this is waited for then.
    fn go_on(&self) -> Result<()> {
        match self.stopping() {
            true => Err(Error::new(Kind::Internal, "the job ends")),
            false => Ok(()),
        }
    }

    /// Whether a scratch file is what its parities were made of, where there are any.
    fn is_as_encoded(&self, name: &str, version: i32) -> Result<bool> {
        let path = self.files.parity_path(name, version)?;
        let header = match ParityFile::read(&path) {
            Ok(file) => file.header,
            Err(error) if error.kind() == Kind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let own = header.encoding.members.get(header.own as usize);
        let path = self.files.scratch_path(name, version)?;
        own.map_or(Ok(true), |own| {
            self.files.has_content(&path, own.len, own.digest, || self.go_on())
        })
    }

    /// Copies one version. The bytes, if it was still owed.
    fn copy_owed(&self, name: &str, version: i32) -> Result<Option<u64>> {
        let since = Instant::now();
        if !self.is_as_encoded(name, version)? {
            let what = "its file in scratch is not what its parities were made of";
            return Err(Error::new(Kind::Corrupt, what));
        }
        let mut span = self.trace.span(Activity::Persist).of(name, version);
        let go_on = || self.go_on();
        let copied = self.files.copy_owed(name, version, go_on, || self.naming.lock())?;
        let (bytes, _naming) = match copied {
            Some((bytes, naming)) => (Some(bytes), naming),
            None => (None, self.naming.lock()),
        };
        if let Some(bytes) = bytes {
            span.bytes(bytes);
            self.metrics.hop(Hop::FtoP).add(bytes, since.elapsed());
            self.found_again(FileTier::Persistent, name);
        }
        let doomed = self.owed.now.lock().versions.remove(&(name.to_owned(), version));
        if doomed == Some(true) {
            self.left_scratch(name, version);
            self.files.remove_scratch(name, version, None)?;
        }
        self.prune(FileTier::Persistent, name);
        // Its scratch file had to stay until now.
        self.prune(FileTier::Scratch, name);
        Ok(bytes)
    }

    /// The next version that is owed: of a name, the one with the highest number.
    fn next_owed(&self, failed: &HashSet<(String, i32)>) -> Option<(String, i32)> {
        loop {
            let mut now = self.owed.now.lock();
            if !self.stopping() {
                if let Some(name) = now.asked.front().cloned() {
                    drop(now);
                    self.look_for_owed(&name);
                    // Not before: until then, everything of that name may be owed.
                    let mut now = self.owed.now.lock();
                    now.asked.retain(|asked| *asked != name);
                    now.own.retain(|(of, _)| *of != name);
                    drop(now);
                    let _naming = self.naming.lock();
                    self.prune(FileTier::Scratch, &name);
                    continue;
                }
                let next = now.versions.keys().rev().find(|key| !failed.contains(*key)).cloned();
                if next.is_some() {
                    return next;
                }
            }
            now.works = false;
            drop(now);
            self.owed.changed.notify_all();
            return None;
        }
    }
}

/// Copies what is owed until there is nothing left, or the engine stops.
pub fn copy(shared: &Shared) -> Result<()> {
    let end = End(&shared.owed);
    if !shared.settle() {
        return shared.may_write();
    }
    // What cannot be copied stays in scratch, and is tried again by the next job.
    let mut failed = HashSet::new();
    while let Some((name, version)) = shared.next_owed(&failed) {
        match shared.copy_owed(&name, version) {
            Ok(Some(bytes)) => log::info!(
                "checkpoint \"{name}\" version {version} of an earlier job, {bytes} bytes, was \
                 missing in persistent: it was copied there"
            ),
            Ok(None) => {}
            Err(error) => {
                // That a file is damaged is known where it was looked at before.
                if !shared.stopping() && !shared.files.is_passed_over(&error) {
                    let error = about(&name, version)(error);
                    log::warn!("what an earlier job has left is not copied to persistent: {error}");
                }
                failed.insert((name, version));
            }
        }
    }
    // Which was said together with that there is nothing left: there may be another worker by now.
    std::mem::forget(end);
    Ok(())
}

/// However the worker ends, nobody waits for it any more.
struct End<'a>(&'a Owed);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::Engine;
    use crate::recovery::Process;

    /// Catches a worker for each version that a job has taken itself, and for each question of one
    /// that takes none.
    #[test]
    fn only_what_is_new_is_looked_for() {
        let owed = Owed::default();
        assert!(owed.ask("x", 3, false, false));
        assert!(!owed.ask("y", 3, false, true), "there is a worker");
        owed.rest();
        assert!(!owed.ask("x", 3, false, false));
        assert!(!owed.ask("x", 4, false, true), "this job's own");
        assert!(owed.ask("x", 5, false, false));
    }

    /// Catches threads that have ended and keep their stacks until the job ends.
    #[test]
    fn workers_that_come_and_go_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("mode = sync\nscratch = {0}/s\npersistent = {0}/p\n", folder.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::alone(0), None).unwrap();
        let at_first = engine.workers();
        // One that has nothing left to do ends a moment later.
        let settles = (1..2000).any(|version| {
            engine.asks_for("x", version, false);
            engine.await_owed();
            std::thread::yield_now();
            version > 20 && engine.workers() <= at_first + 2
        });
        assert!(settles, "{} workers, and {at_first} at first", engine.workers());
    }
}
