//! The bases of deltas (`incremental = true`): the files that have the rest of a checkpoint.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use errors::{Error, ErrorKind, Result};
use format::aggregate::{self, Offsets};
use format::delta::{self, Base, DeltaTable};
use format::header::Decoded;
use format::names;
use indicatif::ProgressBar;
use os::files;

use crate::stored::scan::{self, CheckpointKey, Damaged, VersionCopies};
use crate::stored::{look, Condition, CopyPlace, StoredCopy};

/// What a file of an incremental job says about itself, as far as its deltas and bases have to fit it.
#[derive(Clone, Debug)]
pub(crate) struct IncrementalFile {
    /// The number by which its deltas know it.
    number: u64,
    /// The most deltas that may lie below it.
    chain: u64,
    /// The file that it is a delta of.
    pub base: Option<Base>,
    /// The sizes of all regions, by id.
    regions: BTreeMap<i32, u64>,
    /// Those that it has in part.
    in_part: Vec<i32>,
}

impl IncrementalFile {
    /// Reads it from a file with this header. `None`: the file is of no incremental job.
    ///
    /// # Errors
    /// As [`delta::table_of`].
    pub(crate) fn of(
        file: &File,
        part: Range<u64>,
        path: &Path,
        header: &Decoded,
    ) -> Result<Option<IncrementalFile>> {
        if header.region(delta::REGION).is_none() {
            return Ok(None);
        }
        let Some(table) = delta::table_of(file, part, path)? else { return Ok(None) };
        let mut regions = BTreeMap::new();
        for (id, size, _) in regions_of(header, Some(&table)) {
            if regions.insert(id, size).is_some() {
                let what = format!("{}: it has region {id} twice", path.display());
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
        }
        let in_part = table.regions.iter().map(|region| region.id).collect();
        let (number, chain, base) = (table.number, table.chain, table.needed());
        Ok(Some(IncrementalFile { number, chain, base, regions, in_part }))
    }
}

/// The regions of a checkpoint, ascending: id, size, and the offset in the content if its file has it whole.
pub(crate) fn regions_of(
    header: &Decoded,
    table: Option<&DeltaTable>,
) -> Vec<(i32, u64, Option<u64>)> {
    let own = header.regions().iter().filter(|own| table.is_none() || own.id != delta::REGION);
    let own = own.map(|own| (own.id, own.size, Some(own.offset)));
    let in_part = table.into_iter().flat_map(|table| &table.regions);
    let mut all: Vec<_> = own.chain(in_part.map(|part| (part.id, part.size, None))).collect();
    all.sort_by_key(|(id, ..)| *id);
    all
}

/// Why a copy cannot be the base of a delta.
fn unfit(copy: &StoredCopy, delta: Option<&IncrementalFile>, base: &Base) -> Option<String> {
    if copy.condition == Condition::Bad {
        return Some(copy.reason.clone().unwrap_or_default());
    }
    let Some(found) = copy.incremental.as_ref().filter(|found| found.number == base.number) else {
        return Some("it is another checkpoint than its deltas were taken from".to_owned());
    };
    let delta = delta?;
    let differs = |id: &&i32| found.regions.get(id) != delta.regions.get(id);
    if let Some(id) = delta.in_part.iter().find(differs) {
        return Some(format!("it has no region {id} of the size that its delta has"));
    }
    (found.chain >= delta.chain).then(|| {
        format!(
            "up to {} deltas may lie below it, and {} below its delta",
            found.chain, delta.chain
        )
    })
}

/// Finds bases by the names of files.
#[derive(Debug, Default)]
pub(crate) struct BaseFinder {
    /// The directories to look in.
    directories: Vec<PathBuf>,
    /// The directory with checksums and with the tables of aggregated files.
    meta: Option<PathBuf>,
    /// Whether to read all of each base.
    read_all: bool,
    /// The tables that were read: each has all ranks.
    tables: RefCell<HashMap<PathBuf, Rc<std::result::Result<Offsets, String>>>>,
}

impl BaseFinder {
    /// Looks into these directories.
    pub(crate) fn new(
        directories: Vec<PathBuf>,
        meta: Option<PathBuf>,
        read_all: bool,
    ) -> BaseFinder {
        BaseFinder { directories, meta, read_all, ..BaseFinder::default() }
    }

    /// The file of a base of this name and rank.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], with the directories; [`ErrorKind::Corrupt`]: it is damaged, or another one; else the system's.
    pub(crate) fn find(
        &self,
        name: &str,
        rank: u32,
        base: &Base,
    ) -> Result<delta::StoredCheckpoint> {
        let version = base.version;
        let file = names::checkpoint_file(name, rank, version);
        let mut last = None;
        for directory in &self.directories {
            let own = StoredCopy::new(rank, CopyPlace::Persistent, directory.join(&file), None);
            let part = self.part(directory, name, rank, version).transpose();
            for copy in std::iter::once(Ok(own)).chain(part) {
                let found = copy.and_then(|mut copy| {
                    look::look(&mut copy);
                    if self.read_all && copy.restores() {
                        let (meta, bar) = (self.meta.as_deref(), ProgressBar::hidden());
                        look::read_rank(&file, vec![&mut copy], meta, &bar);
                    }
                    if copy.condition == Condition::Unchecked {
                        return Ok(None);
                    }
                    unfit(&copy, None, base).map_or(Ok(Some(&copy)), |why| {
                        Err(Error::new(ErrorKind::Corrupt, why).within(copy.path.display()))
                    })?;
                    let (file, part) = (files::open(&copy.path)?, copy.part());
                    Ok(Some(delta::StoredCheckpoint { file, part, path: copy.path }))
                });
                match found {
                    Ok(Some(stored)) => return Ok(stored),
                    Ok(None) => {}
                    Err(error) => last = Some(error),
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            let places = self.directories.iter().map(|place| format!(", in {}", place.display()));
            let places: String = places.collect();
            let what = format!("no file of \"{name}\" version {version}, rank {rank}{places}");
            Error::new(ErrorKind::NotFound, what)
        }))
    }

    /// A rank's part of an aggregated file, if there is that file.
    fn part(
        &self,
        directory: &Path,
        name: &str,
        rank: u32,
        version: i32,
    ) -> Result<Option<StoredCopy>> {
        let file = aggregate::file_name(name, version);
        let path = directory.join(&file);
        if matches!(path.try_exists(), Ok(false)) {
            return Ok(None);
        }
        let read = || Rc::new(scan::offsets(&path, self.meta.as_deref(), &file));
        let table = self.tables.borrow_mut().entry(path.clone()).or_insert_with(read).clone();
        let corrupt = |why: &String| Error::new(ErrorKind::Corrupt, why).within(path.display());
        let offsets = (*table).as_ref().map_err(corrupt)?;
        let Some(part) = offsets.part(rank as usize) else { return Ok(None) };
        let copy = StoredCopy::new(rank, CopyPlace::Aggregated, path, Some(part));
        Ok(Some(StoredCopy { proof: offsets.proof(rank as usize), ..copy }))
    }
}

/// Moves what deltas in `found` need from `rest`, and looks at it.
pub(crate) fn add_needed(
    found: &mut BTreeMap<CheckpointKey, VersionCopies>,
    rest: &mut BTreeMap<CheckpointKey, VersionCopies>,
) {
    while !rest.is_empty() {
        let bases = |(key, stored): (&CheckpointKey, &VersionCopies)| {
            let name = key.0.clone();
            let versions = stored.copies.iter().filter_map(|copy| Some(copy.base()?.version));
            versions.map(move |version| (name.clone(), version)).collect::<Vec<_>>()
        };
        let needed: BTreeSet<CheckpointKey> = found.iter().flat_map(bases).collect();
        let mut needed: BTreeMap<CheckpointKey, VersionCopies> =
            needed.iter().filter_map(|key| rest.remove_entry(key)).collect();
        if needed.is_empty() {
            return;
        }
        look::headers(&mut needed);
        found.append(&mut needed);
    }
}

/// Condemns each delta that lacks a good base, however far below. What is wrong with the files themselves is known.
pub(crate) fn judge(found: &mut BTreeMap<CheckpointKey, VersionCopies>) {
    let all = || found.values().flat_map(|stored| &stored.copies);
    if !all().any(|copy| copy.base().is_some()) {
        return;
    }
    let mut known = KnownCopies::default();
    for ((name, version), stored) in &*found {
        for copy in stored.copies.iter().filter(|copy| copy.place != CopyPlace::Parity) {
            known.copies.entry((name, *version, copy.rank)).or_default().push(copy);
        }
        if let Some(damaged) = stored.damaged.first() {
            known.damaged.insert((name, *version), damaged);
        }
    }
    let named = found.iter().flat_map(|((name, _), stored)| {
        stored.copies.iter().map(move |copy| (name.as_str(), copy))
    });
    let lacks: Vec<Option<String>> = named.map(|(name, copy)| known.lacks(name, copy)).collect();
    drop(known);
    let copies = found.values_mut().flat_map(|stored| &mut stored.copies);
    for (copy, why) in copies.zip(lacks) {
        if let Some(why) = why.filter(|_| copy.condition == Condition::Good) {
            copy.condemn(why);
        }
    }
}

/// The copies by name, version and rank, and aggregated files that cannot be read.
#[derive(Default)]
struct KnownCopies<'a> {
    copies: HashMap<(&'a str, i32, u32), Vec<&'a StoredCopy>>,
    damaged: HashMap<(&'a str, i32), &'a Damaged>,
}

impl KnownCopies<'_> {
    /// Why a copy lacks a base, if it does.
    fn lacks(&self, name: &str, copy: &StoredCopy) -> Option<String> {
        let first = copy.base()?.version;
        let mut delta = copy;
        // Each is one shorter than the one before.
        while let Some(base) = delta.base() {
            let mut why = match self.damaged.get(&(name, base.version)) {
                Some(damaged) => format!("{}: {}", damaged.path.display(), damaged.reason),
                None => "there is no file of that".to_owned(),
            };
            let copies = self.copies.get(&(name, base.version, copy.rank));
            let next = copies.into_iter().flatten().find(|copy| {
                let unfit = unfit(copy, delta.incremental.as_ref(), base);
                let fits = unfit.is_none();
                if let Some(unfit) = unfit {
                    why = format!("{}: {unfit}", copy.path.display());
                }
                fits
            });
            let Some(next) = next else {
                let needs = match base.version == first {
                    true => String::new(),
                    false => format!(", which needs version {}", base.version),
                };
                return Some(format!("it is a delta of version {first}{needs}: {why}"));
            };
            delta = next;
        }
        None
    }
}
