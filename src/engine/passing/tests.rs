//! What the log of messages gives, through memory and files and beyond the end of the job.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::backend::Process;
use crate::config::Config;
use crate::engine::Engine;
use crate::platform::forks;
use crate::tier::files::left;

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
    let [scratch, away] = ["s", "away"].map(|name| folder.path().join(name));
    std::fs::rename(&scratch, &away).unwrap();
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
    std::fs::rename(&away, &scratch).unwrap();
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
    let engine = engine(folder.path(), "mode = async\nephemeral = true\nhost_cache_size = 4M\n");
    let bytes = chunk(0, 1 << 20);
    engine.shared().take_passing(0, &bytes).unwrap();
    engine.shared().take_passing(1, &bytes).unwrap();
    let refused = engine.shared().take_passing(2, &bytes).unwrap_err().to_string();
    assert!(refused.contains("half of the host buffer"), "{refused}");
    engine.drop_passing(0).unwrap();
    engine.shared().take_passing(2, &bytes).unwrap();
}

/// Catches files that go with their job or with the next one of the process, though somebody still
/// needs them, or that nobody can remove; and bytes that go although no file has them.
#[test]
fn what_is_left_outlives_the_job() {
    let scratch = "mode = async\nscratch = DIR/s\nhost_cache_size = 8M\n";
    let bytes = chunk(0, 1 << 20);
    let mut into = vec![0; 1 << 20];
    // Numbers that no other test of the process has.
    for (numbers, text) in
        [(1000..1003, scratch.to_owned()), (1003..1006, scratch.to_owned() + "ephemeral = true\n")]
    {
        let folder = tempfile::tempdir().unwrap();
        let before = engine(folder.path(), &text);
        for number in numbers.clone() {
            before.shared().take_passing(number, &bytes).unwrap();
            left::keep(number, before.leave_passing(number).unwrap());
            assert!(before.give_passing(number, &mut into).is_err());
        }
        drop(before);
        let next = engine(folder.path(), &text);
        for number in numbers {
            into.fill(0);
            left::read(number, REGION, &mut into).unwrap().unwrap();
            assert!(into == bytes);
            assert!(left::read(number, REGION, &mut [0; 5]).unwrap().is_err());
            left::remove(number).unwrap().unwrap();
            assert!(left::read(number, REGION, &mut into).is_none());
        }
        drop(next);
        assert_eq!(files(folder.path()), Vec::<String>::new(), "{text}");
    }
    for text in [scratch, "mode = async\nephemeral = true\nhost_cache_size = 8M\n"] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), text);
        let has_scratch = std::fs::remove_dir(folder.path().join("s")).is_ok();
        engine.shared().take_passing(1006, &bytes).unwrap();
        let refused = engine.leave_passing(1006).unwrap_err().to_string();
        let why = if has_scratch { "cannot be written" } else { "no scratch" };
        assert!(refused.contains("chunk 1006") && refused.contains(why), "{refused}");
        into.fill(0);
        engine.give_passing(1006, &mut into).unwrap();
        assert!(into == bytes);
    }
}

/// Catches files that stay for ever when a process was killed, and those of another rank or of a
/// process that lives that go.
#[test]
fn what_a_killed_process_has_left_goes() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = folder.path().join("s");
    std::fs::create_dir(&scratch).unwrap();
    let mut other = forks::spawn(Command::new("sleep").arg("1000")).unwrap();
    let mut ended = forks::spawn(&mut Command::new("true")).unwrap();
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
