//! Writes the bytes of one region to a file or to standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use format::delta::Image;

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
    let bytes = bytes_of(subject, &image, id, size)?;
    let Some(to) = to else {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "the bytes of region {id} are not for a terminal; give --output FILE, or redirect \
             standard output"
        );
        return match copy(subject, &image, bytes, &mut output.lock()) {
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
        return copy(subject, &image, bytes, &mut opened).with_context(|| to.display().to_string());
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut temporary = tempfile::Builder::new()
        .prefix(".veloc-extract-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| to.display().to_string())?;
    copy(subject, &image, bytes, temporary.as_file_mut())
        .with_context(|| to.display().to_string())?;
    temporary.persist(to).with_context(|| to.display().to_string())?;
    Ok(())
}

/// The range of the bytes in the content of the file.
fn bytes_of(
    subject: &InspectedCheckpoint,
    image: &Image,
    id: i32,
    size: Option<u64>,
) -> Result<Range<u64>> {
    let path = subject.opened.path.display();
    let Some(region) = image.header.region(id) else {
        bail!("{path} has no region {id}");
    };
    // In upstream's tool, 0 means all.
    let size = size.filter(|size| *size > 0).unwrap_or(region.size);
    ensure!(
        size <= region.size,
        "{path}: region {id} has {} bytes, fewer than the {size} asked for",
        region.size
    );
    Ok(region.offset..region.offset + size)
}

fn copy(
    subject: &InspectedCheckpoint,
    image: &Image,
    bytes: Range<u64>,
    to: &mut impl Write,
) -> Result<()> {
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
