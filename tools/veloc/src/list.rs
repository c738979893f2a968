//! `veloc ls`: which checkpoints are stored, where each copy is, and whether it is good.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use format::names;
use recovery::handover::Kept;
use serde::Serialize;

use crate::stored::group::{ask, StoredQuestion};
use crate::stored::places::{PlaceOptions, MOST_RANKS};
use crate::stored::show;
use crate::{held, output};

/// List stored checkpoints: versions, ranks, and where their copies are
///
/// What a veloc-backend of this user keeps in memory on this host for jobs with these directories
/// (hand_over) is shown as well; without any directory, all that is kept, alone. `veloc backend drop NAME` frees it.
///
/// Of a directory of `veloc run`, given in place of a name, the versions of its program are listed.
///
/// Reads the headers alone, unless with --verify. Ends with exit code 0 also if copies are bad or
/// missing: veloc verify judges.
#[derive(Debug, Args)]
#[command(mut_group("PlaceOptions", |group| group.required(false)))]
pub(crate) struct ListCommand {
    /// Only checkpoints of this name; or a directory of `veloc run`
    name: Option<String>,
    #[command(flatten)]
    places: Option<PlaceOptions>,
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

/// The checkpoints in files, and those kept in memory.
#[derive(Serialize)]
struct All<'a, T: Serialize> {
    #[serde(flatten)]
    answer: &'a T,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    in_memory: &'a [Kept],
}

pub(crate) fn run(list: &ListCommand) -> Result<()> {
    let directory = list.name.as_deref().map(Path::new);
    let directory = directory.filter(|name| list.places.is_none() && supervisor::is_job(name));
    if let Some(directory) = directory {
        return crate::run::list(directory, list.json);
    }
    if let Some(name) = &list.name {
        names::validate_name(name)?;
    }
    let directories = list.places.as_ref().map(PlaceOptions::directories).transpose()?;
    let kept = held::kept(directories.as_ref(), list.name.as_deref())?;
    let Some(directories) = &directories else {
        return match list.json {
            true => output::print_json(&All { answer: &(), in_memory: &kept }),
            false => output::print(&held::table(&kept)),
        };
    };
    let answer = ask(&StoredQuestion {
        directories,
        name: list.name.as_deref(),
        version: None,
        ranks: list.ranks,
        read_all: list.verify,
    })?;
    if list.json {
        return output::print_json(&All { answer: &answer, in_memory: &kept });
    }
    output::print(&show::table(&answer, list.each))?;
    match kept.is_empty() {
        true => Ok(()),
        false => output::print(&held::table(&kept)),
    }
}
