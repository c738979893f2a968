//! `veloc inspect`: the content of a checkpoint file, and a region of it as a file of its own.
//!
//! | file | is |
//! | --- | --- |
//! | [`subject`] | the file, or a rank's part of an aggregated one |
//! | [`report`] | the answer |
//! | [`extract`] | the bytes of a region |
//! | [`upstream`] | the program under the name `veloc-inspect`, with upstream's flags and output |

use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::Args;
use files::refuse_holes;

use self::report::{ChecksumReport, InspectReport, PartReport, PartsReport, ProofReport};
use self::subject::{bases_of, directories, InspectedCheckpoint, InspectedFile};
use crate::bases::BaseFinder;
use crate::output;

mod extract;
mod report;
mod subject;
pub(crate) mod upstream;

/// Show what is in a checkpoint file, or write one of its regions
///
/// Ends with exit code 1 if the file, or a part of it, is damaged, if its checksum is not the one
/// that was kept (--meta or --config says where), or if a base of a delta (incremental = true) is missing or damaged.
///
/// Under the name veloc-inspect (a link to this program) it takes the flags of VELOC's own tool:
/// --header | --extract ID [--size BYTES], and --ckpt FILE.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The checkpoint file, NAME-RANK-VERSION.dat or NAME-agg-VERSION.dat
    file: PathBuf,
    /// The rank whose part of an aggregated file is meant
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// The directory with checksums and with the tables of aggregated files (key meta)
    #[arg(long, value_name = "DIR")]
    meta: Option<PathBuf>,
    /// A configuration that says where that directory is, and where bases of a delta may be that are not beside it
    #[arg(long, value_name = "FILE", conflicts_with = "meta")]
    config: Option<PathBuf>,
    /// Write the bytes of this region, and nothing else
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    extract: Option<i32>,
    /// How many bytes of the region [default: all]
    #[arg(long, value_name = "BYTES", requires = "extract")]
    size: Option<u64>,
    /// Where to write the bytes [default: standard output]
    #[arg(long, short, value_name = "FILE", requires = "extract")]
    output: Option<PathBuf>,
    /// Read the header only, not the whole file for its checksum
    #[arg(long, conflicts_with = "extract")]
    no_checksum: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "extract")]
    json: bool,
}

/// Shows the file, or writes a region. A file whose checksum is not the one that was kept, of which a part
/// is damaged, or that lacks a base, is shown as well, and is a failure.
pub(crate) fn run(inspect: &Inspect) -> Result<()> {
    let known = directories(inspect.meta.as_deref(), inspect.config.as_deref())?;
    let meta = &known.meta;
    let opened = InspectedFile::open(&inspect.file)?;
    let lists_parts = opened.aggregated().is_some() && inspect.rank.is_none();
    let reads_all = inspect.extract.is_none() && !inspect.no_checksum && !lists_parts;
    let bases = bases_of(&inspect.file, &known, reads_all);
    if let Some(id) = inspect.extract {
        let subject = opened.subject(inspect.rank, meta.as_deref())?;
        extract::extract(&subject, &bases, id, inspect.size, inspect.output.as_deref())?;
        return Ok(());
    }
    if lists_parts {
        let parts = parts(&opened, meta.as_deref(), &bases)?;
        if inspect.json { output::print_json(&parts) } else { output::print(&parts.text()) }?;
        let bad = parts.ranks.iter().filter(|part| part.error.is_some()).count();
        if bad > 0 {
            let (path, all) = (opened.path.display(), parts.ranks.len());
            bail!("{path}: {bad} of {all} parts are damaged or lack a base");
        }
        return Ok(());
    }
    let subject = opened.subject(inspect.rank, meta.as_deref())?;
    let said = subject.said()?;
    let mut report = InspectReport::of(&subject, &said)?;
    if !inspect.no_checksum {
        if subject.proof.is_none() {
            refuse_holes(&opened.file, &subject.part, &opened.path)?;
            said.content.check(&opened.file, &opened.path)?;
        }
        report.checksum = Some(ChecksumReport::of(&subject, meta.as_deref())?);
        report.proof = ProofReport::of(&subject)?;
    }
    if inspect.json { output::print_json(&report) } else { output::print(&report.text()) }?;
    if report.checksum.is_some_and(|checksum| checksum.matches == Some(false)) {
        bail!("{}: the checksum is not the one that was kept", opened.path.display());
    }
    if report.proof.is_some_and(|proof| !proof.fits) {
        bail!("{}: it does not fit its proof", opened.path.display());
    }
    subject.image(&bases)?;
    Ok(())
}

/// The parts of an aggregated file, each with the facts of its header. Their bytes are not read, nor those of bases.
fn parts(
    opened: &InspectedFile,
    meta: Option<&std::path::Path>,
    bases: &BaseFinder,
) -> Result<PartsReport> {
    let offsets = opened.offsets(meta)?;
    let mut ranks = Vec::new();
    for rank in 0..offsets.ranks() {
        let Some(part) = offsets.part(rank) else { continue };
        let identity =
            opened.aggregated().map(|(name, version)| (name.to_owned(), rank as u32, version));
        let subject = InspectedCheckpoint { opened, part: part.clone(), identity, proof: None };
        let said = subject.said();
        let table = said.as_ref().ok().and_then(|said| said.table.as_ref());
        let delta_of = table.and_then(|table| table.needed()).map(|base| base.version);
        let lacks = delta_of.and_then(|_| subject.image(bases).err());
        ranks.push(PartReport {
            rank: rank as u32,
            offset: part.start,
            bytes: part.end - part.start,
            regions: said.as_ref().ok().map(|said| said.regions().len()),
            delta_of,
            error: said.err().map(|error| error.to_string()).or(lacks.map(|e| e.to_string())),
        });
    }
    let (name, version) = opened.aggregated().unzip();
    let path = opened.path.clone();
    Ok(PartsReport { path, name: name.map(str::to_owned), version, bytes: opened.len, ranks })
}
