//! `veloc top`: the jobs of this user on this node, as they are now.

mod job;
mod lines;
mod screen;

#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::{held, output};
use job::Watch;

/// Show the jobs of this user on this node: levels, rates, and what waits for what
///
/// A process of a job is one that has called VELOC_Init, with or without a GPU, and a veloc-backend that writes what a
/// killed one has left. On a terminal the picture is renewed until q is pressed; the arrows choose the process
/// whose levels and rates are shown. Without a terminal, and with --once, each process gets one line.
///
/// Rates are those of the last interval. A transfer counts when it ends.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    every: f64,
    /// A line for each process, also on a terminal
    #[arg(long)]
    once: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

fn interval(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "is no number".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("is not within 0.1 to 3600 seconds".to_owned()),
    }
}

pub(crate) fn run(top: &Top) -> Result<()> {
    let every = Duration::from_secs_f64(top.every);
    let mut watch = Watch::begin()?;
    if !top.once && !top.json && std::io::stdout().is_terminal() {
        return screen::show(watch, every);
    }
    if !watch.is_empty() {
        std::thread::sleep(every);
    }
    let jobs = watch.look()?;
    if top.json {
        return output::print_json(&jobs);
    }
    output::print(&lines::of(&jobs))?;
    let kept = held::kept(None, None)?;
    match kept.is_empty() {
        true => Ok(()),
        false => output::print(&held::table(&kept)),
    }
}
