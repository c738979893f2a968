//! `veloc verify`: reads every copy, and says which versions all ranks can restore.

use std::process::ExitCode;

use anyhow::{bail, Result};
use clap::Args;
use format::names;

use crate::output;
use crate::stored::group::{ask, StoredQuestion};
use crate::stored::places::{PlaceOptions, MOST_RANKS};
use crate::stored::show;

/// Read all stored checkpoints, and say which versions all ranks can restore
///
/// Each copy is compared with its proof, or with a checksum where one was kept (chksum = true). Where there
/// is neither, as of files that VELOC has written, headers are checked and the copies of a rank are compared
/// with each other, and the state is "not checked".
///
/// Ends with exit code 1 if a copy is bad, if a name has no version that all ranks can restore, or if
/// the name given has no checkpoint at all. What only erasure codes can rebuild does not count.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Only checkpoints of this name
    name: Option<String>,
    /// Only this version of the name
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
    #[command(flatten)]
    places: PlaceOptions,
    /// The ranks of the job are 0 to N-1 [default: all that have any version of a name]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(verify: &Verify) -> Result<ExitCode> {
    if let Some(name) = &verify.name {
        names::validate_name(name)?;
    }
    let answer = ask(&StoredQuestion {
        directories: &verify.places.directories()?,
        name: verify.name.as_deref(),
        version: verify.version,
        ranks: verify.ranks,
        read_all: true,
    })?;
    if let (Some(name), true) = (&verify.name, answer.checkpoints.is_empty()) {
        let version = verify.version.map(|version| format!(" version {version}"));
        bail!("no file of checkpoint \"{name}\"{}", version.unwrap_or_default());
    }
    match verify.json {
        true => output::print_json(&answer)?,
        false => output::print(&(show::table(&answer, false) + &show::restorable(&answer)))?,
    }
    let restorable = !answer.restorable.values().any(Vec::is_empty);
    Ok(if restorable && answer.totals.bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
