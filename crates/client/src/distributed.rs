//! Puts this process's parts of arrays together from the files of several ranks (`VELOC_Mem_decompose`).

use std::time::Instant;

use super::recovering::zeros;
use catalog::Part;
use collective::Distribution;
use compression::{decode, AnyHeader};
use engine::place::Place;
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use files::Opened;
use format::subarray::{Run, Subarray};
use os::affinity::usable_cpus;
use trace::metrics::{Cause, Stop};

/// Runs of fewer bytes are read together with what lies between them.
const SHORT: u64 = 64 << 10;
/// Bytes that are read at once for short runs.
const SPAN: u64 = 4 << 20;

/// The consequence of a restore that failed halfway.
const UNDEFINED: &str = "the content of the regions that were to be restored is undefined now";

/// The memory of this process's part of an array.
#[derive(Debug)]
pub(super) struct ArrayPlace {
    pub(super) place: Place,
    pub(super) part: Subarray,
}

/// Reads parts of arrays into the application's memory.
///
/// # Errors
/// A file cannot be read, or is not what it was when the processes looked at it. Then the memory is undefined.
pub(super) fn read(
    engine: &Engine,
    distribution: &Distribution,
    (name, version): (&str, i32),
    arrays: &[ArrayPlace],
) -> Result<()> {
    let places: Vec<Place> = arrays.iter().map(|array| array.place).collect();
    engine.restores().await_application(&places)?;
    let since = Instant::now();
    let _waiting = engine.metrics().wait(Cause::File);
    for ArrayPlace { place, part } in arrays.iter().filter(|array| !array.part.is_empty()) {
        let fill = |to: &mut [u8]| -> Result<()> {
            let ranks = distribution.parts(place.id);
            let has_some = |from: &Subarray| from.runs(part).next().is_some();
            for (rank, from) in ranks.filter(|(_, from)| has_some(from)) {
                let opened = distribution.open(engine.files(), rank, name, version);
                opened
                    .and_then(|opened| copy(&opened, place.id, from.runs(part), to))
                    .map_err(|error| error.within(format!("rank {rank}")).followed_by(UNDEFINED))?;
            }
            Ok(())
        };
        if place.part == Part::Device {
            let mut bytes = zeros(place.len)?;
            fill(&mut bytes)?;
            engine.device_side().write_application(place, bytes)?;
            continue;
        }
        // SAFETY: the application has `len` writable bytes there, which was checked, and uses them for nothing else
        // during the call.
        fill(unsafe {
            std::slice::from_raw_parts_mut(place.address as *mut u8, place.len as usize)
        })?;
    }
    let bytes = places.iter().map(|place| place.len).sum();
    engine.metrics().hop((Stop::Scratch, Stop::Application)).add(bytes, since.elapsed());
    Ok(())
}

/// Copies runs of a region of a file.
fn copy(opened: &Opened, id: i32, runs: impl Iterator<Item = Run>, to: &mut [u8]) -> Result<()> {
    let gone = || Error::new(ErrorKind::Corrupt, format!("region {id} is missing"));
    let region = *opened.header().region(id).ok_or_else(gone)?;
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
