//! Finding the pages of other processes, and reading them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use errors::{Error, Result};

use super::page::*;
use crate::activity::{Activity, ACTIVITIES};
use crate::cause::{Cause, CAUSES};

/// A process of this user with a job.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessNow {
    /// Its number.
    pub process: u32,
    /// Its command line, with spaces between the arguments and without the folder of its program.
    pub command: String,
    /// What it says of itself. `None`: it has a version of the library that says it otherwise.
    pub present: Option<Present>,
}

/// What a process says of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct Present {
    /// Its rank, and the number of ranks; 0 if that is unknown (`VELOC_Init_single`).
    pub rank: (u32, u32),
    /// When the job has started, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// The version of the library.
    pub library: String,
    /// The checkpoint that was taken or restored last: its name, the first 64 bytes of it, and its version.
    pub checkpoint: Option<(String, i32)>,
    /// The file that the timeline is written to.
    pub trace: Option<PathBuf>,
    /// The levels of memory, the fastest first, without those that the job has not.
    pub levels: Vec<LevelNow>,
    /// Each activity.
    pub activities: Vec<ActivityNow>,
    /// Each cause of waiting.
    pub causes: Vec<CauseNow>,
}

/// A level of memory. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelNow {
    /// Its name in messages.
    pub name: String,
    /// Bytes that it has, or will have.
    pub size: u64,
    /// Bytes that are mapped (the device cache) or touched (the host buffer).
    pub ready: u64,
    /// Bytes that checkpoints use.
    pub used: u64,
}

/// What was done of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityNow {
    /// Which one.
    pub activity: Activity,
    /// Its name in the timeline.
    pub name: &'static str,
    /// How many are under way.
    pub under_way: u64,
    /// How many have ended.
    pub count: u64,
    /// Bytes that these have moved.
    pub bytes: u64,
    /// Their time, added over the threads.
    pub nanoseconds: u64,
}

/// How long the application has waited for a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseNow {
    /// Which one.
    pub cause: Cause,
    /// Its name in the timeline.
    pub name: &'static str,
    /// How many of its threads wait for it now.
    pub waiting: u64,
    /// When the last wait has begun, in nanoseconds of `CLOCK_MONOTONIC`; 0 if there was none.
    pub since: u64,
    /// How many waits have ended.
    pub count: u64,
    /// The time of these.
    pub nanoseconds: u64,
}

/// The processes of this user with a job, by their numbers. A process of several jobs is there several times.
///
/// # Errors
/// `/proc` cannot be read.
pub fn processes() -> Result<Vec<ProcessNow>> {
    let user = rustix::process::geteuid().as_raw();
    let proc = Path::new("/proc");
    let entries = fs::read_dir(proc).map_err(|error| Error::system("reading /proc", &error))?;
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for process in numbers {
        let folder = proc.join(process.to_string());
        // What ends meanwhile is not there any more.
        if !fs::metadata(&folder).is_ok_and(|folder| folder.uid() == user) {
            continue;
        }
        let pages = pages(&folder);
        // Forked processes have the page of their parent, which has the lower number.
        for (_, words) in pages.into_iter().filter(|(inode, _)| seen.insert(*inode)) {
            let (command, present) = (command(&folder), present(&words));
            found.push(ProcessNow { process, command, present });
        }
    }
    Ok(found)
}

/// The pages of a process, with their inodes.
fn pages(folder: &Path) -> Vec<(u64, Vec<u64>)> {
    let link = format!("/memfd:{NAME} (deleted)");
    let entries = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    let of_jobs = entries
        .map(|entry| entry.path())
        .filter(|path| fs::read_link(path).is_ok_and(|target| target.as_os_str() == link.as_str()));
    of_jobs
        .filter_map(|path| {
            let file = File::open(path).ok()?;
            let inode = file.metadata().ok()?.ino();
            let mut bytes = Vec::new();
            file.take(WORDS as u64 * 8).read_to_end(&mut bytes).ok()?;
            let words = bytes
                .chunks_exact(8)
                .map(|eight| u64::from_ne_bytes(eight.try_into().unwrap_or_default()));
            Some((inode, words.collect()))
        })
        .collect()
}

fn command(folder: &Path) -> String {
    shown_command(&fs::read(folder.join("cmdline")).unwrap_or_default())
}

/// A command line for people: without the folder of the program, which would leave no room for the rest.
pub(super) fn shown_command(line: &[u8]) -> String {
    let mut words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let program = words.next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let words: Vec<&[u8]> = std::iter::once(name).chain(words).collect();
    shown(words.join(&b' '))
}

/// What the words of a page say, if they are of this layout.
fn present(words: &[u64]) -> Option<Present> {
    if words.len() != WORDS || words[MARK_AT] != MARK {
        return None;
    }
    let number = |word: usize| words[word] as u32;
    let version = words[VERSION].checked_sub(1).and_then(|version| i32::try_from(version).ok());
    let trace = text(words, TRACE);
    let level = |row: usize| {
        let at = LEVELS_AT + row * LEVEL_WORDS;
        let name = shown(text(words, Words { at, count: LEVEL_NAME }));
        let [size, ready, used] = [0, 1, 2].map(|word| words[at + LEVEL_NAME + word]);
        LevelNow { name, size, ready, used }
    };
    let activities = ACTIVITIES.iter().enumerate().map(|(number, (activity, name))| {
        let at = ACTIVITIES_AT + number * ACTIVITY_WORDS;
        let [under_way, count, bytes, nanoseconds] = [0, 1, 2, 3].map(|word| words[at + word]);
        let name = name.to_str().unwrap_or_default();
        ActivityNow { activity: *activity, name, under_way, count, bytes, nanoseconds }
    });
    let causes = CAUSES.iter().enumerate().map(|(number, (cause, name))| {
        let at = CAUSES_AT + number * CAUSE_WORDS;
        let [waiting, since, count, nanoseconds] = [0, 1, 2, 3].map(|word| words[at + word]);
        CauseNow { cause: *cause, name, waiting, since, count, nanoseconds }
    });
    Some(Present {
        rank: (number(RANK), number(RANKS)),
        since: words[SINCE],
        library: shown(text(words, LIBRARY)),
        checkpoint: version.map(|version| (shown(text(words, CHECKPOINT)), version)),
        trace: (!trace.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(trace))),
        levels: (0..LEVELS).map(level).filter(|level| level.size > 0).collect(),
        activities: activities.collect(),
        causes: causes.collect(),
    })
}

fn text(words: &[u64], place: Words) -> Vec<u8> {
    let words = &words[place.at..place.at + place.count];
    words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect()
}

/// A text for a terminal.
fn shown(text: Vec<u8>) -> String {
    let text = String::from_utf8_lossy(&text);
    text.chars().filter(|letter| !letter.is_control()).collect()
}
