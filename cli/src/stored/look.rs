//! What each copy is: its size and age, whether its header fits, and, if all of it is read, whether
//! its bytes are those that were written.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use indicatif::ProgressBar;
use veloc_client::erasure::parity::ParityFile;
use veloc_client::error::Kind;
use veloc_client::format::checksum;
use veloc_client::format::header::Header;
use veloc_client::format::names;
use veloc_client::platform::files;

use super::scan::{Key, Stored};
use super::{routed, Checksum, Condition, Copy, Place};
use crate::output;

/// The most threads that look at files: more do not make a file system faster.
const MOST_THREADS: usize = 8;

/// Looks at the header of every copy.
pub fn headers(found: &mut BTreeMap<Key, Stored>) {
    let copies: Vec<&mut Copy> = found.values_mut().flat_map(|stored| &mut stored.copies).collect();
    let bar = output::files_bar("looking", copies.len() as u64);
    on_threads(copies, |copy| {
        look(copy);
        bar.inc(1);
    });
    bar.finish_and_clear();
    // A job that goes on may have removed some since they were listed.
    for stored in found.values_mut() {
        stored.copies.retain(|copy| copy.condition != Condition::Unchecked);
    }
    found.retain(|_, stored| !stored.copies.is_empty() || !stored.damaged.is_empty());
}

/// Reads all of every good copy and compares it with its checksum, or if none was kept, with the
/// other copies of the same rank.
pub fn contents(found: &mut BTreeMap<Key, Stored>, meta: Option<&Path>) {
    let good = |copy: &Copy| copy.condition == Condition::Good;
    let all = found.values().flat_map(|stored| &stored.copies);
    let bar = output::bytes_bar("reading", all.filter(|copy| good(copy)).map(|c| c.bytes).sum());
    let mut work = Vec::new();
    for ((name, version), stored) in found.iter_mut() {
        let mut by_rank: BTreeMap<u32, Vec<&mut Copy>> = BTreeMap::new();
        let mut parities = Vec::new();
        for copy in stored.copies.iter_mut().filter(|copy| good(copy)) {
            match copy.place {
                Place::Parity => parities.push(copy),
                _ => by_rank.entry(copy.rank).or_default().push(copy),
            }
        }
        let file = |rank| names::checkpoint_file(name, rank, *version);
        work.extend(by_rank.into_iter().map(|(rank, copies)| (file(rank), copies)));
        work.push((String::new(), parities));
    }
    on_threads(work, |(file, copies)| {
        if file.is_empty() {
            copies.into_iter().for_each(|copy| read_parity(copy, &bar));
        } else {
            read_rank(&file, copies, meta, &bar);
        }
    });
    bar.finish_and_clear();
}

/// Does something with each item, on a few threads.
fn on_threads<T: Send>(items: Vec<T>, act: impl Fn(T) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let threads = threads.min(MOST_THREADS).min(items.len());
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    act(item);
                }
            });
        }
    });
}

/// Finds out what a copy is. One that is not there any more stays unchecked.
fn look(copy: &mut Copy) {
    let metadata = match fs::metadata(&copy.path) {
        Ok(metadata) => metadata,
        Err(error) => {
            copy.routed = fs::read_link(&copy.path).ok();
            match (&copy.routed, error.kind()) {
                (None, ErrorKind::NotFound) => {}
                (Some(target), ErrorKind::NotFound) => {
                    let reason = format!("it is a link to {target:?}, which is missing");
                    copy.condemn(reason);
                }
                _ => copy.condemn(error.to_string()),
            }
            return;
        }
    };
    copy.modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|time| time.as_secs());
    if copy.place != Place::Aggregated {
        copy.bytes = metadata.len();
    }
    let read = || -> veloc_client::error::Result<()> {
        if copy.place == Place::Parity {
            return ParityFile::read(&copy.path).map(drop);
        }
        let file = files::open(&copy.path)?;
        Header::read(&file, copy.part(), &copy.path).map(drop)
    };
    let result = read();
    copy.routed = match copy.place {
        Place::Scratch | Place::Persistent => routed(&copy.path),
        Place::Aggregated | Place::Parity => None,
    };
    copy.condition = Condition::Good;
    match result {
        Ok(()) => {}
        // A file of the application's own has no header.
        Err(error)
            if copy.routed.is_some() && error.kind() == Kind::Corrupt && metadata.is_file() => {}
        Err(error) if error.kind() == Kind::NotFound => copy.condition = Condition::Unchecked,
        Err(error) => copy.condemn(without(&copy.path, &error.to_string())),
    }
}

/// Reads a parity file, which has the digest of what it holds in itself.
fn read_parity(copy: &mut Copy, bar: &ProgressBar) {
    match ParityFile::read(&copy.path).and_then(|parity| parity.verify()) {
        Ok(()) => copy.checksum = Checksum::Good,
        Err(error) => {
            copy.checksum = Checksum::Bad;
            copy.condemn(without(&copy.path, &error.to_string()));
        }
    }
    bar.inc(copy.bytes);
}

/// Reads the copies that a rank has of a version.
fn read_rank(file: &str, copies: Vec<&mut Copy>, meta: Option<&Path>, bar: &ProgressBar) {
    let kept = meta.map(|meta| checksum::path(meta, file)).map(|path| checksum::read(&path));
    let mut read = Vec::new();
    for copy in copies {
        let found = files::open(&copy.path).and_then(|opened| {
            checksum::of_range(&opened, copy.part(), &copy.path, |bytes| bar.inc(bytes))
        });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                copy.condemn(without(&copy.path, &error.to_string()));
                continue;
            }
        };
        match &kept {
            Some(Ok(kept)) if *kept == found => copy.checksum = Checksum::Good,
            Some(Ok(kept)) => {
                copy.checksum = Checksum::Bad;
                copy.condemn(format!("its SHA-256 is {found}, but {kept} was kept"));
            }
            Some(Err(error)) if error.kind() != Kind::NotFound => {
                copy.checksum = Checksum::Bad;
                copy.condemn(error.to_string());
            }
            _ => {
                copy.checksum = Checksum::None;
                read.push((found, copy));
            }
        }
    }
    // Without a checksum nobody can tell which of two is right.
    if read.iter().any(|(found, _)| *found != read[0].0) {
        for (_, copy) in &mut read {
            copy.condemn("the copies of this rank differ, and no checksum was kept");
        }
    }
}

/// A message that begins with the path, without it.
fn without(path: &Path, message: &str) -> String {
    let prefix = format!("{}: ", path.display());
    message.strip_prefix(&prefix).unwrap_or(message).to_owned()
}
