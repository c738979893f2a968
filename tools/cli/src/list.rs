//! `veloc ls`: which checkpoints are stored, where each copy is, and whether it is good.

use anyhow::Result;
use clap::Args;
use format::names;

use crate::output;
use crate::stored::group::{ask, Question};
use crate::stored::places::{Places, MOST_RANKS};
use crate::stored::show;

/// List stored checkpoints: versions, ranks, and where their copies are
///
/// Reads the headers alone, unless with --verify. Ends with exit code 0 also if copies are bad or
/// missing: veloc verify judges.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only checkpoints of this name
    name: Option<String>,
    #[command(flatten)]
    places: Places,
    /// The ranks of the job are 0 to N-1 [default: all that have any version of a name]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: Option<u32>,
    /// Read every copy and compare it with its checksum, as `veloc verify` does
    #[arg(long)]
    verify: bool,
    /// A row for each version, also where neighbours are stored alike
    #[arg(long)]
    each: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists.
pub(crate) fn run(list: &List) -> Result<()> {
    if let Some(name) = &list.name {
        names::validate_name(name)?;
    }
    let answer = ask(&Question {
        directories: &list.places.directories()?,
        name: list.name.as_deref(),
        version: None,
        ranks: list.ranks,
        read_all: list.verify,
    })?;
    match list.json {
        true => output::print_json(&answer)?,
        false => output::print(&show::table(&answer, list.each))?,
    }
    Ok(())
}
