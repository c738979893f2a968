//! The state of each copy: its size and age, whether its header fits, and, if all of it is read,
//! whether its bytes are those that were written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use ::files::refuse_holes;
use erasure::parity::ParityFile;
use errors::{Error, ErrorKind};
use format::checksum;
use format::frames::FileContent;
use format::header::Header;
use format::names;
use format::proof::{Digest, Proof, Sort};
use format::subarray;
use indicatif::ProgressBar;
use os::files;

use super::scan::{CheckpointKey, VersionCopies};
use super::{own_user, routed, ChecksumResult, Condition, CopyPlace, StoredCopy};
use crate::bases::IncrementalFile;
use crate::output;

/// The most threads that look at files: more do not make a file system faster.
const MOST_THREADS: usize = 8;

/// Looks at the header of every copy.
pub(crate) fn headers(found: &mut BTreeMap<CheckpointKey, VersionCopies>) {
    let copies: Vec<&mut StoredCopy> =
        found.values_mut().flat_map(|stored| &mut stored.copies).collect();
    let bar = output::count_bar("looking", copies.len() as u64);
    on_threads(copies, |copy| {
        look(copy);
        bar.inc(1);
    });
    bar.finish_and_clear();
    // A running job may have removed some copies since they were listed.
    for stored in found.values_mut() {
        stored.copies.retain(|copy| copy.condition != Condition::Unchecked);
    }
    found.retain(|_, stored| !stored.copies.is_empty() || !stored.damaged.is_empty());
}

/// Reads all of every good copy and compares it with its proof, else with the checksum of its version, or
/// if there is neither, with the other copies of the same rank.
pub(crate) fn contents(found: &mut BTreeMap<CheckpointKey, VersionCopies>, meta: Option<&Path>) {
    let good = |copy: &StoredCopy| copy.condition == Condition::Good;
    let all = found.values().flat_map(|stored| &stored.copies);
    let bar = output::bytes_bar("reading", all.filter(|copy| good(copy)).map(|c| c.bytes).sum());
    let mut work = Vec::new();
    for ((name, version), stored) in found.iter_mut() {
        let mut by_rank: BTreeMap<u32, Vec<&mut StoredCopy>> = BTreeMap::new();
        let mut parities = Vec::new();
        for copy in stored.copies.iter_mut().filter(|copy| good(copy)) {
            match copy.place {
                CopyPlace::Parity => parities.push(copy),
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

/// Calls `act` for each item, on a few threads.
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

/// Finds out the state of a copy. A copy that is not there any more stays unchecked.
pub(crate) fn look(copy: &mut StoredCopy) {
    let metadata = match fs::metadata(&copy.path) {
        Ok(metadata) => metadata,
        Err(error) => {
            copy.routed = fs::read_link(&copy.path).ok();
            match (&copy.routed, error.kind()) {
                (None, io::ErrorKind::NotFound) => {}
                (Some(target), io::ErrorKind::NotFound) => {
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
    // Asks the system alone: the library would make a file there to find out.
    let link = fs::symlink_metadata(&copy.path).map_or(metadata.uid(), |link| link.uid());
    copy.owner = Some(if metadata.uid() == own_user() { link } else { metadata.uid() });
    if copy.place != CopyPlace::Aggregated {
        copy.bytes = metadata.len();
    }
    let result = read_header(copy);
    copy.routed = match copy.place {
        CopyPlace::Scratch | CopyPlace::Persistent => routed(&copy.path),
        CopyPlace::Aggregated | CopyPlace::Parity => None,
    };
    copy.condition = Condition::Good;
    match result {
        Ok(()) => {}
        // A file of the application's own has no header.
        Err(error)
            if copy.routed.is_some()
                && error.kind() == ErrorKind::Corrupt
                && metadata.is_file() => {}
        Err(error) if error.kind() == ErrorKind::NotFound => copy.condition = Condition::Unchecked,
        Err(error) => copy.condemn(without(&copy.path, &error.to_string())),
    }
    if copy.proof.is_none() && copy.restores() {
        let hollow =
            files::open(&copy.path).and_then(|file| refuse_holes(&file, &copy.part(), &copy.path));
        if let Err(error) = hollow {
            copy.condemn(without(&copy.path, &error.to_string()));
        }
    }
}

/// Reads a copy's proof and header.
fn read_header(copy: &mut StoredCopy) -> errors::Result<()> {
    if copy.place == CopyPlace::Parity {
        return ParityFile::read(&copy.path).map(drop);
    }
    let file = files::open(&copy.path)?;
    if copy.place != CopyPlace::Aggregated {
        // A damaged proof is reported when the whole file is read.
        copy.proof = Proof::read(&file, &copy.path).unwrap_or_default();
    }
    copy.job_ranks = copy.proof.as_ref().map(|proof| proof.ranks).filter(|ranks| *ranks > 0);
    let content = FileContent::of(&file, copy.part(), &copy.path)?;
    let header = Header::read(&file, &content, &copy.path)?;
    copy.incremental = IncrementalFile::of(&file, copy.part(), &copy.path, &header)?;
    let table = header.region(subarray::REGION).filter(|table| table.size <= subarray::LONGEST);
    if let Some(table) = table {
        let mut bytes = vec![0; table.size as usize];
        content.read_exact_at(&file, &mut bytes, table.offset, &copy.path)?;
        // A region of the application's own may have this number.
        copy.parts = subarray::decode(&bytes).unwrap_or_default();
    }
    Ok(())
}

/// Reads a parity file, which contains the digest of its own content.
fn read_parity(copy: &mut StoredCopy, bar: &ProgressBar) {
    match ParityFile::read(&copy.path).and_then(|parity| parity.verify()) {
        Ok(()) => copy.checksum = ChecksumResult::Good,
        Err(error) => {
            copy.checksum = ChecksumResult::Bad;
            copy.condemn(without(&copy.path, &error.to_string()));
        }
    }
    bar.inc(copy.bytes);
}

/// Reads the copies that a rank has of a version.
pub(crate) fn read_rank(
    file: &str,
    copies: Vec<&mut StoredCopy>,
    meta: Option<&Path>,
    bar: &ProgressBar,
) {
    let kept = meta.map(|meta| checksum::path(meta, file)).map(|path| checksum::read(&path));
    let mut read = Vec::new();
    for copy in copies {
        match read_copy(file, copy, bar) {
            Ok((Some(_), _)) => copy.checksum = ChecksumResult::Good,
            Ok((None, found)) => match &kept {
                Some(Ok(kept)) if Digest::Sha256(*kept) == found => {
                    copy.checksum = ChecksumResult::Good
                }
                Some(Ok(kept)) => {
                    copy.checksum = ChecksumResult::Bad;
                    copy.condemn(format!("its bytes have {found}, but SHA-256 {kept} was kept"));
                }
                Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
                    copy.checksum = ChecksumResult::Bad;
                    copy.condemn(error.to_string());
                }
                _ => {
                    copy.checksum = ChecksumResult::None;
                    read.push((found, copy));
                }
            },
            Err(error) => {
                copy.checksum = ChecksumResult::Bad;
                copy.condemn(without(&copy.path, &error.to_string()));
            }
        }
    }
    // Without proof or checksum nobody can tell which of two different copies is right.
    if read.iter().any(|(found, _)| *found != read[0].0) {
        for (_, copy) in &mut read {
            copy.condemn(
                "the copies of this rank differ, and there is neither a proof nor a checksum",
            );
        }
    }
}

/// Reads a copy of the checkpoint file of this name to its end. Returns its proof, if it has one,
/// which its bytes fit, and the digest of its bytes, which is SHA-256 without a proof.
fn read_copy(
    file: &str,
    copy: &StoredCopy,
    bar: &ProgressBar,
) -> errors::Result<(Option<Proof>, Digest)> {
    let opened = files::open(&copy.path)?;
    let proof = match copy.place {
        CopyPlace::Aggregated => copy.proof.clone(),
        _ => Proof::read(&opened, &copy.path)?,
    };
    // A file of the application's own may change.
    let proof = proof.and_then(|proof| Some((proof.digest?, proof)));
    let unfit = |what: String| Error::new(ErrorKind::Corrupt, what);
    if let (Some((_, proof)), Some(of)) = (&proof, names::parse(file)) {
        if !proof.is_of(of.name, of.version, of.rank, copy.bytes) {
            let said = proof.said();
            return Err(unfit(format!("it has {} bytes, and its proof says {said}", copy.bytes)));
        }
    }
    let sort = proof.as_ref().map_or(Sort::Sha256, |(digest, _)| digest.sort());
    let found = Digest::of_range(sort, &opened, copy.part(), &copy.path, |bytes| bar.inc(bytes))?;
    match proof {
        Some((digest, _)) if digest != found => {
            Err(unfit(format!("its bytes have {found}, but its proof says {digest}")))
        }
        Some((_, proof)) => Ok((Some(proof), found)),
        None => {
            // The frames of a compressed file are all there is.
            FileContent::of(&opened, copy.part(), &copy.path)?.check(&opened, &copy.path)?;
            Ok((None, found))
        }
    }
}

/// A message that begins with the path, without the path.
fn without(path: &Path, message: &str) -> String {
    let prefix = format!("{}: ", path.display());
    message.strip_prefix(&prefix).unwrap_or(message).to_owned()
}
