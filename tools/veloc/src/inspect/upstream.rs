//! The program under the name `veloc-inspect`: upstream's flags, and its output as far as scripts
//! read it. New here: a region is not written to a terminal, and ids may be negative.

use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::{ArgAction, Parser};
use config::{Directories, VERSION};

use super::extract;
use super::subject::{bases_of, InspectedFile};
use crate::output;

/// The name of upstream's program.
pub(crate) const NAME: &str = "veloc-inspect";

/// Show the header of a checkpoint file, or write one of its regions to standard output
///
/// It has the flags of VELOC's own tool, and prints what that prints. Ends with exit code 1 if the
/// file cannot be read or has no such region.
#[derive(Debug, Parser)]
#[command(name = NAME, version = VERSION, max_term_width = 100, disable_help_flag = true)]
pub(crate) struct Upstream {
    /// List the regions
    #[arg(long, short = 'h', required_unless_present = "extract")]
    header: bool,
    /// Write the bytes of this region
    #[arg(long, short, value_name = "ID", allow_negative_numbers = true)]
    extract: Option<i32>,
    /// How many bytes of the region [default: all]
    #[arg(long, short, value_name = "BYTES")]
    size: Option<u64>,
    /// The checkpoint file
    #[arg(long, short, value_name = "FILE", required_unless_present = "file")]
    ckpt: Option<PathBuf>,
    /// The checkpoint file, without an option
    #[arg(conflicts_with = "ckpt")]
    file: Option<PathBuf>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Does as upstream's tool does. Given both options, it shows the header.
pub(crate) fn run(asked: &Upstream) -> Result<()> {
    let Some(path) = asked.ckpt.as_ref().or(asked.file.as_ref()) else {
        bail!("which file? give --ckpt FILE");
    };
    let opened = InspectedFile::open(path)?;
    let subject = opened.subject(None, None)?;
    match asked.extract {
        Some(id) if !asked.header => {
            let bases = bases_of(path, &Directories::default(), false);
            extract::extract(&subject, &bases, id, asked.size, None)?;
        }
        _ => {
            let regions = subject.said()?.regions();
            let mut text = format!("Header for {}:\n", path.display());
            for (id, size, _) in &regions {
                text += &format!("id = {id}, size = {size}\n");
            }
            // Nobody has compared the sizes in a delta with a file's.
            let total = regions.iter().fold(0, |sum: u64, (_, size, _)| sum.saturating_add(*size));
            text += &format!("Total checkpoint size = {total}\n");
            output::print(&text)?;
        }
    }
    Ok(())
}
