//! Puts this process's parts of arrays together from the files of several ranks (`VELOC_Mem_decompose`).

use std::collections::btree_map::{BTreeMap, Entry};
use std::time::Instant;

use super::recovering::zeros;
use collective::Distribution;
use compression::{decode, AnyHeader};
use device::Pointer;
use engine::place::Place;
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use files::Opened;
use format::header::RegionPosition;
use format::subarray::{Run, Subarray};
use os::affinity::usable_cpus;
use trace::metrics::{Cause, Stop};

/// Runs of fewer bytes are read together with what lies between them.
const SHORT: u64 = 64 << 10;
/// Bytes that are read at once for short runs.
const SPAN: u64 = 4 << 20;

/// The consequence of a restore that failed halfway.
const UNDEFINED: &str = "the content of the regions that were to be restored is undefined now";

/// The files that this process reads of a distribution. They are open from the moment at which the processes agree:
/// one that is ready may replace them while others still read.
#[derive(Debug)]
pub(super) struct Pieces {
    distribution: Distribution,
    opened: BTreeMap<u32, Opened>,
    /// Whose file has for this process what all ranks have alike.
    alike: u32,
}

/// Where bytes go: a part of an array, or a whole region that all ranks have alike.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) place: Place,
    pub(super) part: Option<Subarray>,
}

impl Pieces {
    /// Opens the files that have some of these parts of arrays, by region.
    ///
    /// # Errors
    /// One is not there any more.
    pub(super) fn open(
        engine: &Engine,
        distribution: Distribution,
        (name, version): (&str, i32),
        parts: impl Iterator<Item = (i32, Subarray)>,
    ) -> Result<Pieces> {
        let alike = engine.files().places().rank() % distribution.ranks();
        let mut opened = BTreeMap::new();
        let mut needs = vec![alike];
        for (id, part) in parts {
            needs.extend(sources(&distribution, id, &part).map(|(rank, _)| rank));
        }
        for rank in needs {
            if let Entry::Vacant(place) = opened.entry(rank) {
                place.insert(distribution.open(engine.files(), rank, name, version)?);
            }
        }
        Ok(Pieces { distribution, opened, alike })
    }

    /// The file with what all ranks have alike, and its rank.
    pub(super) fn alike(&self) -> Result<(u32, &Opened)> {
        Ok((self.alike, self.opened(self.alike)?))
    }

    /// A part of the array that a region belongs to. `None`: it belongs to none.
    pub(super) fn part_of(&self, id: i32) -> Option<Subarray> {
        self.distribution.parts(id).next().map(|(_, part)| part)
    }

    fn opened(&self, rank: u32) -> Result<&Opened> {
        self.opened.get(&rank).ok_or_else(|| {
            Error::invalid(
                "it needs other parts of arrays than when VELOC_Restart_begin was called: call VELOC_Mem_decompose before",
            )
        })
    }

    /// Reads to the application's memory, and to buffers.
    ///
    /// # Errors
    /// A file cannot be read. Then the content of the memory is undefined.
    pub(super) fn read(&self, engine: &Engine, wanted: &[Wanted]) -> Result<()> {
        let places: Vec<Place> = wanted.iter().map(|wanted| wanted.place).collect();
        engine.restores().await_application(&places)?;
        let since = Instant::now();
        let _waiting = engine.metrics().wait(Cause::File);
        for Wanted { place, part } in wanted.iter().filter(|wanted| wanted.place.len > 0) {
            let filled = |to: &mut [u8]| {
                let filled = match part {
                    Some(part) => self.read_part(place.id, part, to),
                    None => self.read_alike(place.id, to),
                };
                filled.map_err(|error| error.followed_by(UNDEFINED))
            };
            if matches!(place.kind, Pointer::Device { .. }) {
                let mut bytes = zeros(place.len)?;
                filled(&mut bytes)?;
                engine.device_side().write_application(place, bytes)?;
                continue;
            }
            // SAFETY: there are `len` writable bytes, which was checked of the application's memory, and nothing else uses
            // them during the call.
            filled(unsafe {
                std::slice::from_raw_parts_mut(place.address as *mut u8, place.len as usize)
            })?;
        }
        let bytes = places.iter().map(|place| place.len).sum();
        engine.metrics().hop((Stop::Scratch, Stop::Application)).add(bytes, since.elapsed());
        Ok(())
    }

    fn read_part(&self, id: i32, part: &Subarray, to: &mut [u8]) -> Result<()> {
        for (rank, from) in sources(&self.distribution, id, part) {
            let copied = self.opened(rank).and_then(|opened| copy(opened, id, from.runs(part), to));
            copied.map_err(|error| error.within(format!("rank {rank}")))?;
        }
        Ok(())
    }

    fn read_alike(&self, id: i32, to: &mut [u8]) -> Result<()> {
        let (_, opened) = self.alike()?;
        opened.read_exact_at(to, position(opened, id)?.offset)
    }
}

/// The ranks that have elements of a part of an array, each with its own part.
fn sources<'a>(
    distribution: &'a Distribution,
    id: i32,
    part: &'a Subarray,
) -> impl Iterator<Item = (u32, Subarray)> + 'a {
    distribution.parts(id).filter(|(_, from)| from.runs(part).next().is_some())
}

fn position(opened: &Opened, id: i32) -> Result<RegionPosition> {
    let missing = || Error::new(ErrorKind::Corrupt, format!("region {id} is missing"));
    opened.header().region(id).copied().ok_or_else(missing)
}

/// Copies runs of a region of a file.
fn copy(opened: &Opened, id: i32, runs: impl Iterator<Item = Run>, to: &mut [u8]) -> Result<()> {
    let region = position(opened, id)?;
    if let Some(len) = region.decoded {
        let mut encoded = zeros(region.size)?;
        opened.read_exact_at(&mut encoded, region.offset)?;
        let mut content = zeros(len)?;
        if AnyHeader::read(&encoded)?.content_len() != len {
            let text = format!("region {id} does not decode to its {len} bytes");
            return Err(Error::new(ErrorKind::Corrupt, text));
        }
        decode(&encoded, &mut content, usable_cpus())?;
        for run in runs {
            place(run, to).copy_from_slice(&content[run.from as usize..][..run.len as usize]);
        }
        return Ok(());
    }
    let mut runs = runs.peekable();
    let mut span = Vec::new();
    while let Some(first) = runs.next() {
        if first.len >= SHORT {
            opened.read_exact_at(place(first, to), region.offset + first.from)?;
            continue;
        }
        let is_near = |run: &Run| run.from + run.len - first.from <= SPAN;
        let mut near = vec![first];
        near.extend(std::iter::from_fn(|| runs.next_if(is_near)));
        let end = near.last().map_or(0, |last| last.from + last.len);
        span.resize((end - first.from) as usize, 0);
        opened.read_exact_at(&mut span, region.offset + first.from)?;
        for run in near {
            let at = (run.from - first.from) as usize;
            place(run, to).copy_from_slice(&span[at..][..run.len as usize]);
        }
    }
    Ok(())
}

/// Where a run goes.
fn place(run: Run, to: &mut [u8]) -> &mut [u8] {
    &mut to[run.to as usize..][..run.len as usize]
}
