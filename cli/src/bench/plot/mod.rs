//! `veloc bench plot`: pictures of results in the manner of HiPC'22, figures 3 to 6.
//!
//! | file | owns |
//! | --- | --- |
//! | `files` | what the named files and folders hold |
//! | `pool` | several files as one |
//! | `group`, `field` | which measurements share a picture or a series, and by what |
//! | `figures/` | which pictures there are |
//! | `sheet`, `chart`, `scale`, `style` | a whole picture, a panel, its axes, its colours |
//! | `bars`, `stack`, `lines`, `boxes` | what stands inside of a panel |

use std::fs;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use clap::Args;

use crate::bench::table::absent;
use crate::draw;

use self::pool::Pool;

mod bars;
mod boxes;
mod chart;
mod field;
mod figures;
mod files;
mod group;
mod lines;
mod pool;
mod scale;
mod sheet;
mod stack;
mod style;
#[cfg(test)]
pub mod synthetic;
#[cfg(test)]
mod tests;

/// What to draw, and where to.
#[derive(Debug, Args)]
pub struct Plot {
    /// Files of results, or folders of them; those of one device are drawn together
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,
    /// The folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "plots")]
    pub out: PathBuf,
}

/// Draws all that the files have in them, and says what that is and what is missing.
///
/// # Errors
///
/// If a file cannot be read: the others have been drawn then. If there is nothing to draw in the
/// results. Files of other kinds are passed over.
pub fn run(plot: &Plot) -> Result<()> {
    let found = files::read(&plot.results);
    for other in &found.others {
        println!("not drawn: {other}");
    }
    for reason in &found.damaged {
        eprintln!("not read: {reason}");
    }
    let unread = found.damaged.len();
    let passed_over = found.results.is_empty() && !found.others.is_empty();
    let pools = pool::by_device(found.results);
    let drawn = draw_all(plot, &pools)?;
    ensure!(unread == 0, "{unread} of the files could not be read; {drawn} pictures of the others");
    ensure!(drawn > 0 || passed_over, "there is nothing to draw in the files");
    if passed_over {
        println!("no picture: none of the files holds what a picture is made of");
    }
    Ok(())
}

/// What the names of a device's pictures begin with, where there are several devices.
fn device_name(number: usize, pool: &Pool) -> String {
    const LONGEST: usize = 32;
    let name = group::simple(&pool.device);
    match field::cut(&name, LONGEST) {
        short if short.len() < name.len() => format!("{short}-{number}"),
        whole => whole,
    }
}

/// Returns how many pictures there are.
fn draw_all(plot: &Plot, pools: &[Pool]) -> Result<usize> {
    if pools.is_empty() {
        return Ok(0);
    }
    fs::create_dir_all(&plot.out).with_context(|| format!("making {}", plot.out.display()))?;
    let mut drawn = 0;
    for (number, pool) in (1..).zip(pools) {
        let files: Vec<String> = pool.files.iter().map(|file| file.display().to_string()).collect();
        println!("{}: {}", pool.device, files.join(", "));
        for warning in &pool.warnings {
            println!("  warning: {warning}");
        }
        if pool.commits.len() > 1 {
            println!("  note: pooled from several commits: {}", pool.commits.join(", "));
        }
        if !pool.measurements.is_empty() {
            println!("  {}", absent::count(&pool.measurements));
        }
        let left_out = pool.left_out.iter().map(|reason| format!("left out: {reason}"));
        let absent = absent::failures(&pool.measurements).into_iter();
        for line in absent.chain(absent::reasons(&pool.measurements)).chain(left_out) {
            println!("  {line}");
        }
        let album = figures::all(pool);
        for (name, sheet) in &album.pictures {
            let name = match pools.len() {
                1 => name.clone(),
                _ => format!("{}-{name}", device_name(number, pool)),
            };
            let svg = sheet.draw().with_context(|| format!("drawing {name}"))?;
            let [svg, _] = draw::save(&svg, &plot.out.join(name))?;
            println!("  {}, .png", svg.display());
        }
        for missing in &album.missing {
            println!("  not drawn: {missing}");
        }
        drawn += album.pictures.len();
    }
    Ok(drawn)
}
