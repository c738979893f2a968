//! `veloc bench plot`: pictures of results in the manner of HiPC'22, figures 3 to 6.
//!
//! | file | owns |
//! | --- | --- |
//! | `pool` | several files as one |
//! | `group` | which measurements share a picture or a series |
//! | `figures/` | which pictures there are |
//! | `sheet`, `chart`, `scale`, `style` | a whole picture, a panel, its axes, its colours |
//! | `bars`, `lines`, `boxes` | what stands inside of a panel |

use std::fs;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use clap::Args;

use crate::draw;

mod bars;
mod boxes;
mod chart;
mod figures;
mod group;
mod lines;
mod pool;
mod scale;
mod sheet;
mod style;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

/// What to draw, and where to.
#[derive(Debug, Args)]
pub struct Plot {
    /// Files of results; those of one device are drawn together
    #[arg(required = true, value_name = "RESULTS.json")]
    pub results: Vec<PathBuf>,
    /// The folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "plots")]
    pub out: PathBuf,
}

/// Draws all that the files have in them, and says what that is and what is missing.
pub fn run(plot: &Plot) -> Result<()> {
    let pools = pool::read(&plot.results)?;
    fs::create_dir_all(&plot.out).with_context(|| format!("making {}", plot.out.display()))?;
    let mut drawn = 0;
    for pool in &pools {
        let files: Vec<String> = pool.files.iter().map(|file| file.display().to_string()).collect();
        println!("{}: {}", pool.device, files.join(", "));
        for warning in &pool.warnings {
            println!("  warning: {warning}");
        }
        if pool.commits.len() > 1 {
            println!("  note: pooled from several commits: {}", pool.commits.join(", "));
        }
        let failures: usize = pool.measurements.iter().map(|point| point.failures.len()).sum();
        if failures > 0 {
            println!("  note: failed repeats, which no figure counts: {failures}");
        }
        let album = figures::all(pool);
        for (name, sheet) in &album.pictures {
            let name = match pools.len() {
                1 => name.clone(),
                _ => format!("{}-{name}", group::simple(&pool.device)),
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
    ensure!(drawn > 0, "there is nothing to draw in the files");
    Ok(())
}
