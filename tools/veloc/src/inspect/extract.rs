//! Writes the bytes of one region to a file or to standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use format::delta::Image;
use os::affinity::usable_cpus;

use super::subject::{is_same_file, InspectedCheckpoint};
use crate::bases::BaseFinder;
use crate::output;

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 20;

/// Writes the first `size` bytes of region `id` (all of them if `None`) to the file `to`, or to
/// standard output unless that is a terminal. A file gets its name when it is complete.
pub(super) fn extract(
    subject: &InspectedCheckpoint,
    bases: &BaseFinder,
    id: i32,
    size: Option<u64>,
    to: Option<&Path>,
) -> Result<()> {
    // What is no checkpoint is told before a base is missed.
    subject.said()?;
    let image = subject.image(bases)?;
    let what = what(subject, &image, id, size)?;
    let Some(to) = to else {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "the bytes of region {id} are not for a terminal; give --output FILE, or redirect \
             standard output"
        );
        return match copy(subject, &image, &what, &mut output.lock()) {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            result => result.context("standard output"),
        };
    };
    let path = &subject.opened.path;
    ensure!(!is_same_file(path, to), "{} is the checkpoint itself", to.display());
    // An existing device or pipe (such as /dev/null) is written to, not replaced.
    if fs::metadata(to).is_ok_and(|metadata| !metadata.is_file()) {
        let opened = OpenOptions::new().write(true).open(to);
        let mut opened = opened.with_context(|| to.display().to_string())?;
        return copy(subject, &image, &what, &mut opened).with_context(|| to.display().to_string());
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut temporary = tempfile::Builder::new()
        .prefix(".veloc-extract-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| to.display().to_string())?;
    copy(subject, &image, &what, temporary.as_file_mut())
        .with_context(|| to.display().to_string())?;
    temporary.persist(to).with_context(|| to.display().to_string())?;
    Ok(())
}

/// What is extracted.
enum Extracted {
    /// This range of the content of the file.
    Range(Range<u64>),
    /// The first bytes of a compressed region.
    Uncompressed(Vec<u8>),
}

fn what(
    subject: &InspectedCheckpoint,
    image: &Image,
    id: i32,
    size: Option<u64>,
) -> Result<Extracted> {
    let path = subject.opened.path.display();
    let Some(region) = image.header.region(id) else {
        bail!("{path} has no region {id}");
    };
    // In upstream's tool, 0 means all.
    let all = region.decoded.unwrap_or(region.size);
    let size = size.filter(|size| *size > 0).unwrap_or(all);
    ensure!(size <= all, "{path}: region {id} has {all} bytes, fewer than the {size} asked for");
    if region.decoded.is_none() {
        return Ok(Extracted::Range(region.offset..region.offset + size));
    }
    let within = || format!("{path}: region {id}");
    let opened = subject.opened;
    let mut stored = vec![0; region.size as usize];
    image.content.read_exact_at(&opened.file, &mut stored, region.offset, &opened.path)?;
    let header = compression::AnyHeader::read(&stored).with_context(within)?;
    let fits = header.content_len() == all && header.encoded_len()? == region.size;
    ensure!(fits, "{}: it is no compressed region of {all} bytes", within());
    let mut bytes = vec![0; all as usize];
    compression::decode(&stored, &mut bytes, usable_cpus()).with_context(within)?;
    bytes.truncate(size as usize);
    Ok(Extracted::Uncompressed(bytes))
}

fn copy(
    subject: &InspectedCheckpoint,
    image: &Image,
    what: &Extracted,
    to: &mut impl Write,
) -> Result<()> {
    let bytes = match what {
        Extracted::Range(bytes) => bytes,
        Extracted::Uncompressed(bytes) => {
            return Ok(to.write_all(bytes).and_then(|()| to.flush())?)
        }
    };
    let bar = output::bytes_bar("extracting", bytes.end - bytes.start);
    let mut block = vec![0; BLOCK.min((bytes.end - bytes.start) as usize)];
    let mut at = bytes.start;
    while at < bytes.end {
        let count = (bytes.end - at).min(BLOCK as u64);
        let block = &mut block[..count as usize];
        image.content.read_exact_at(&subject.opened.file, block, at, &subject.opened.path)?;
        to.write_all(block)?;
        at += count;
        bar.inc(count);
    }
    to.flush()?;
    bar.finish_and_clear();
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
