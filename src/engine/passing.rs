//! What the log of messages gives here because it has no memory for it, and takes back. It takes the
//! way of a checkpoint, through the host buffer to a file in scratch, but is none: it stands under a
//! name that no application can have ([`names::LOG`]), in files that are removed as temporary ones are,
//! has neither checksum, parities nor a copy in persistent, is nothing to an heir, and no limit of
//! versions applies to it. It never has more than half of the host buffer while files do not take it, so
//! that checkpoints find room whatever becomes of it. Whoever gives it waits for room, so that is a thread of the giver's own.

use std::path::PathBuf;
use std::sync::Arc;

use super::capture::Open;
use super::place::Place;
use super::restore::{Owner, Restoring};
use super::shared::Shared;
use crate::background::Background;
use crate::catalog::state::State;
use crate::error::{Error, Kind, Result};
use crate::format::names;

/// The id of the one region.
pub const REGION: i32 = 0;

impl Shared {
    /// Takes a copy of these bytes.
    ///
    /// # Errors
    /// There is no room, in its half of memory or in scratch, and none can come.
    pub fn take_passing(self: &Arc<Shared>, number: i32, bytes: &[u8]) -> Result<()> {
        let _background = Background::begin();
        let mut open = Open::begin(self, names::LOG, number);
        open.persist = Some(false);
        let place = Place::plain(REGION, bytes.as_ptr(), bytes.len());
        let len = place.len;
        let captured = match self.catalog.look(|state| state.is_crowded_by_passing(len)) {
            false => self.capture_places(&mut open, &[place]),
            true if self.files.has_scratch() => {
                // What could not be written may be written now.
                self.catalog.step(State::retry);
                self.capture_to_file(&mut open, &[place])
            }
            true => Err(Error::new(
                Kind::NoRoom,
                "it may have half of the host buffer (host_cache_size), and there is no scratch",
            )),
        };
        let taken = captured.and_then(|()| self.complete(open));
        taken.map_err(|error| error.within(about_it(number)))
    }

    /// Gives bytes back that were taken; they stay here all the same.
    ///
    /// # Errors
    /// They are not here, or cannot be read.
    pub fn give_passing(&self, number: i32, into: &mut [u8]) -> Result<()> {
        let _background = Background::begin();
        let missing = || Error::new(Kind::NotFound, "it is not there").within(about_it(number));
        let found = self.catalog.step(|state| {
            let id = state.find(names::LOG, number)?;
            state.begin_restore(id);
            Some((id, state.regions(id).unwrap_or_default()))
        });
        let (id, regions) = found.ok_or_else(missing)?;
        let size = regions.first().map(|region| region.size);
        let (name, owner) = (names::LOG.to_owned(), Owner::Own(id));
        let restoring = Restoring { owner, name, version: number, regions };
        let given = if size == Some(into.len() as u64) {
            let place = Place::plain(REGION, into.as_mut_ptr(), into.len());
            self.recover(&restoring, &[place]).map_err(|error| error.within(about_it(number)))
        } else {
            let what = format!("it has {size:?} bytes, and {} are wanted", into.len());
            Err(Error::invalid(what).within(about_it(number)))
        };
        self.catalog.step(|state| state.end_restore(id, given.is_ok()));
        given
    }

    /// Forgets bytes that were taken.
    ///
    /// # Errors
    /// Their file cannot be removed.
    pub fn drop_passing(&self, number: i32) -> Result<()> {
        let _background = Background::begin();
        self.catalog.step(|state| state.withdraw(names::LOG, number));
        if !self.files.has_scratch() {
            return Ok(());
        }
        // Who gives a file its name looks under this lock whether it is wanted.
        let _naming = self.naming.lock();
        self.files.remove_passing(number)
    }

    /// The job ends, and somebody may still need bytes that were taken: their file, whose path this
    /// is, is the job's no more. What is not written yet is waited for.
    ///
    /// # Errors
    /// They are in no file, and cannot be: they stay here.
    pub fn leave_passing(&self, number: i32) -> Result<PathBuf> {
        let failed = |kind, why| Error::new(kind, why).within(about_it(number));
        if !self.files.has_scratch() {
            return Err(failed(Kind::NoRoom, "there is no scratch"));
        }
        if !self.catalog.step(|state| state.want_passing(number)) {
            return Err(failed(Kind::NotFound, "it is not there"));
        }
        let written = self.catalog.wait(|state| state.is_passing_written(number))?;
        if !written {
            return Err(failed(Kind::System, "it cannot be written to scratch"));
        }
        let _naming = self.naming.lock();
        let path = self.files.own_path(names::LOG, number)?;
        let path = std::path::absolute(&path)
            .map_err(|error| Error::system(path.display().to_string(), &error))?;
        self.catalog.step(|state| state.withdraw(names::LOG, number));
        Ok(path)
    }

    /// Whether there is a place that could take anything.
    pub fn takes_passing(&self) -> bool {
        let room = |state: &State| state.host_room().0;
        !self.stopping() && (self.files.has_scratch() || self.catalog.look(room) > 0)
    }

    /// Waits until what was taken is in files, as far as that can be.
    ///
    /// # Errors
    /// A worker has ended for good.
    pub fn drain_passing(&self) -> Result<()> {
        self.catalog.wait(|state| state.passing_drained().then_some(()))
    }

    /// The file that has the bytes of a number when they are in scratch.
    #[cfg(test)]
    fn passing_file(&self, number: i32) -> std::path::PathBuf {
        self.files.own_path(names::LOG, number).unwrap()
    }
}

fn about_it(number: i32) -> String {
    format!("chunk {number} of the log of messages")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::backend::Process;
    use crate::config::Config;
    use crate::engine::Engine;

    fn engine(folder: &Path, text: &str) -> Engine {
        let text = text.replace("DIR", &folder.display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        Engine::start(config, Process::alone(0), None).unwrap()
    }

    /// All files below a folder, without what the engine itself has there.
    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => found.extend(files(&entry.path())),
                false => found.push(entry.file_name().into_string().unwrap()),
            }
        }
        found
    }

    fn chunk(number: i32, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at as i32 * 31 + number) as u8).collect()
    }

    /// Through memory and files, whatever the job does with checkpoints. Catches a copy in persistent,
    /// a checksum or a parity of it, a version that a limit removes, a file under the name of a
    /// checkpoint, one that stays, and bytes of another chunk.
    #[test]
    fn what_is_given_comes_back() {
        for text in [
            "mode = async\nscratch = DIR/s\nhost_cache_size = 2M\n",
            // Larger than memory: written at once.
            "mode = async\nscratch = DIR/s\nhost_cache_size = 256K\n",
            "mode = sync\nscratch = DIR/s\npersistent = DIR/p\nmeta = DIR/m\nchksum = true\n\
             max_versions = 1\nscratch_versions = 1\npersistent_interval = 0\n",
            "mode = async\nephemeral = true\nscratch = DIR/s\nhost_cache_size = 2M\n",
            "mode = async\nephemeral = true\nhost_cache_size = 16M\n",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let engine = engine(folder.path(), text);
            assert!(engine.takes_passing());
            let chunks: Vec<_> = (0..8).map(|number| chunk(number, 1 << 20)).collect();
            for (number, bytes) in chunks.iter().enumerate() {
                engine.shared().take_passing(number as i32, bytes).unwrap();
            }
            if !engine.config.ephemeral {
                engine.drain_passing().unwrap();
                let found = files(folder.path());
                let is_own = |name: &String| names::parse_log(name).is_some();
                assert!(found.len() == 8 && found.iter().all(is_own), "{text}{found:?}");
                assert_eq!(engine.catalog.look(|state| state.counts().checkpoints), 0);
            }
            let mut into = vec![0; 1 << 20];
            for (number, bytes) in chunks.iter().enumerate().rev() {
                engine.give_passing(number as i32, &mut into).unwrap();
                assert!(into == *bytes, "{text}{number}");
            }
            assert!(engine.give_passing(3, &mut [0; 5]).is_err());
            for number in 0..8 {
                engine.drop_passing(number).unwrap();
            }
            assert!(engine.give_passing(3, &mut into).is_err());
            assert_eq!(engine.catalog.look(State::live), 0);
            assert_eq!(files(folder.path()), Vec::<String>::new(), "{text}");
        }
    }

    /// Catches an application that is told of a chunk, or loses a checkpoint over it; one that is lost
    /// with its file; and a file of another chunk, or damaged, that is taken for it.
    #[test]
    fn what_cannot_be_written_stays_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let text = "mode = async\nscratch = DIR/s\nhost_cache_size = 4M\n";
        let engine = engine(folder.path(), text);
        std::fs::remove_dir(folder.path().join("s")).unwrap();
        let bytes = chunk(0, 1 << 20);
        engine.shared().take_passing(0, &bytes).unwrap();
        engine.shared().take_passing(1, &chunk(1, 1 << 20)).unwrap();
        engine.drain_passing().unwrap();
        assert_eq!(engine.catalog.step(State::take_failure), None);
        assert_eq!(engine.catalog.look(State::unwritten), None);
        // The other half is not for the log.
        let refused = engine.shared().take_passing(2, &bytes).unwrap_err().to_string();
        assert!(refused.contains("chunk 2 of the log of messages"), "{refused}");
        let mut into = vec![0; 1 << 20];
        engine.give_passing(0, &mut into).unwrap();
        assert!(into == bytes);
        std::fs::create_dir(folder.path().join("s")).unwrap();
        // What has failed is tried again when somebody is short of room.
        engine.shared().take_passing(2, &bytes).unwrap();
        engine.drain_passing().unwrap();
        // So that they are in files alone.
        for number in 3..=6 {
            engine.shared().take_passing(number, &bytes).unwrap();
            engine.drain_passing().unwrap();
        }
        std::fs::remove_file(engine.passing_file(0)).unwrap();
        let lost = engine.give_passing(0, &mut into).unwrap_err().to_string();
        assert!(lost.contains("chunk 0 of the log of messages"), "{lost}");
        let path = engine.passing_file(1);
        let cut = std::fs::read(&path).unwrap();
        std::fs::write(path, &cut[..cut.len() - 1]).unwrap();
        assert!(engine.give_passing(1, &mut into).is_err());
    }

    /// Catches a log that no file takes and that leaves checkpoints no room, in memory or in files.
    #[test]
    fn what_no_file_takes_leaves_checkpoints_their_room() {
        let folder = tempfile::tempdir().unwrap();
        let text = "mode = async\nscratch = DIR/s\npersistent = DIR/p\nhost_cache_size = 4M\n";
        let engine = engine(folder.path(), text);
        std::fs::remove_dir(folder.path().join("s")).unwrap();
        let bytes = chunk(0, 1 << 20);
        let taken = (0..8).filter(|&number| engine.shared().take_passing(number, &bytes).is_ok());
        assert_eq!(taken.count(), 2);
        // What fits beside the log, and what does not and goes to persistent alone.
        for len in [1 << 20, 3 << 20] {
            let data = chunk(1, len);
            let mut open = engine.begin("x", len as i32);
            let place = Place::plain(0, data.as_ptr(), len);
            engine.capture(&mut open, &[place], Vec::new()).unwrap();
            engine.commit(open).unwrap();
        }
        let mut into = vec![0; 1 << 20];
        engine.give_passing(1, &mut into).unwrap();
        assert!(into == bytes);
    }

    /// Catches an application that waits for files of the log when it waits for its checkpoints, and
    /// log that is written before them.
    #[test]
    fn who_waits_for_checkpoints_does_not_wait_for_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), "mode = async\nscratch = DIR/s\nhost_cache_size = 8M\n");
        let bytes = chunk(0, 1 << 20);
        {
            // No file gets its name meanwhile.
            let _naming = engine.naming.lock();
            for number in 0..3 {
                engine.shared().take_passing(number, &bytes).unwrap();
            }
            assert!(engine.catalog.look(|state| state.drained() && !state.passing_drained()));
            engine.catalog.wait_drained().unwrap();
            let mut open = engine.begin("x", 1);
            let place = Place::plain(0, bytes.as_ptr(), bytes.len());
            engine.capture(&mut open, &[place], Vec::new()).unwrap();
            engine.commit(open).unwrap();
            assert!(!engine.catalog.look(State::drained));
            let next = engine.catalog.step(State::next_write).unwrap();
            assert_eq!((&*next.name, next.version), ("x", 1));
            let not_now = Err(Error::new(Kind::System, "not now"));
            engine.catalog.step(|state| state.write_done(&next, not_now));
            assert!(engine.catalog.step(State::take_failure).is_some());
        }
        engine.drain().unwrap();
        let own = files(folder.path());
        assert!(own.iter().any(|name| name == "x-0-1.dat"), "{own:?}");
        engine.drain_passing().unwrap();
        assert_eq!(files(folder.path()).len(), 4);
        for number in 0..3 {
            engine.drop_passing(number).unwrap();
        }
    }

    /// The same where there are no files.
    #[test]
    fn without_scratch_it_has_half_of_memory() {
        let folder = tempfile::tempdir().unwrap();
        let engine =
            engine(folder.path(), "mode = async\nephemeral = true\nhost_cache_size = 4M\n");
        let bytes = chunk(0, 1 << 20);
        engine.shared().take_passing(0, &bytes).unwrap();
        engine.shared().take_passing(1, &bytes).unwrap();
        let refused = engine.shared().take_passing(2, &bytes).unwrap_err().to_string();
        assert!(refused.contains("half of the host buffer"), "{refused}");
        engine.drop_passing(0).unwrap();
        engine.shared().take_passing(2, &bytes).unwrap();
    }

    /// Catches files that stay for ever when a process was killed, and those of another rank or of a
    /// process that lives that go.
    #[test]
    fn what_a_killed_process_has_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("s");
        std::fs::create_dir(&scratch).unwrap();
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let file = |rank: u32, pid: u32| {
            let complete = names::checkpoint_file(names::LOG, rank, 7);
            let name = names::temporary_file(&complete, pid, 0);
            std::fs::write(scratch.join(&name), b"x").unwrap();
            name
        };
        file(0, ended.id());
        file(0, std::process::id());
        let mut stay = vec![file(1, ended.id()), file(0, other.id())];
        drop(engine(folder.path(), "mode = async\nscratch = DIR/s\n"));
        other.kill().unwrap();
        other.wait().unwrap();
        let mut left = files(&scratch);
        left.sort();
        stay.sort();
        assert_eq!(left, stay);
    }
}
