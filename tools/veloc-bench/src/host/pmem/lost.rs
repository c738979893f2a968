//! Simulated crashes (`veloc crash`): iterations lost by the size of the cache, and how much slower the simulation is.

use std::collections::BTreeMap;

use anyhow::{ensure, Context as _, Result};
use serde::Deserialize;

use super::programs::Programs;
use super::{tell, PmemOptions};

/// From here on, by the size of the cache, data is much larger than it.
const MUCH_LARGER: f64 = 8.0;

/// What is needed of the file of `veloc crash`.
#[derive(Deserialize)]
struct Crashed {
    crashes: usize,
    recovered: usize,
    started_over: usize,
    unmarked: usize,
    /// Seconds without and with the simulation.
    seconds: (f64, f64),
    /// How many crashes have lost that many iterations.
    lost: BTreeMap<u32, usize>,
}

fn crash(programs: &Programs, options: &[&str], program: &[&str]) -> Result<Crashed> {
    let results = programs.folder.join("crashes.json");
    let mut arguments =
        vec!["crash".to_owned(), "--json".to_owned(), results.display().to_string()];
    arguments.extend(options.iter().map(|&text| text.to_owned()));
    arguments.extend(["--".to_owned(), programs.path("cg-seen").display().to_string()]);
    arguments.extend(program.iter().map(|&text| text.to_owned()));
    let _ = programs.veloc(&arguments)?;
    let text = std::fs::read_to_string(&results)?;
    let found: Crashed = serde_json::from_str(&text).context("what veloc crash has found")?;
    let right = found.recovered + found.started_over + found.unmarked;
    ensure!(right == found.crashes, "{} of {} crashes ended right", right, found.crashes);
    Ok(found)
}

pub(super) fn iterations(programs: &Programs, options: &PmemOptions) -> Result<()> {
    programs.cg(true)?;
    // All states of a solve are kept: how far back one is whole is limited by nothing else.
    let program = ["--class", "S", "--solves", "1", "--slots", "26", "--crash", "power"];
    let touched = bytes_of_an_iteration(programs)?;
    for kib in &options.caches {
        // Half of them come around calls, and do not count.
        let (cache, crashes) = (format!("{kib}KiB,16"), (2 * options.crashes).to_string());
        let found =
            crash(programs, &["--runs", &crashes, "--cache", &cache, "--coin", "cache"], &program)?;
        let ratio = touched / (*kib * 1024) as f64;
        let all = found.lost.iter();
        let values: Vec<f64> =
            all.flat_map(|(lost, count)| std::iter::repeat_n(f64::from(*lost), *count)).collect();
        let goal = (ratio >= MUCH_LARGER).then_some(1.0);
        let what = format!("iterations lost, data of an iteration {} caches", round(ratio));
        tell(what, "iterations", values, goal)?;
    }
    Ok(())
}

fn round(ratio: f64) -> String {
    if ratio >= 3.0 {
        format!("{ratio:.0}")
    } else {
        format!("{ratio:.2}")
    }
}

/// What an iteration of class S reads and writes: the matrix, and of p, q, r and z the old and the new.
fn bytes_of_an_iteration(programs: &Programs) -> Result<f64> {
    let folder = programs.folder.display().to_string();
    let ended = programs.run("ways", &["cg", &folder, "S", "1", "1"])?;
    let nonzeros = ended.values("nonzeros").first().copied().context("the size of class S")?;
    const ORDER: f64 = 1400.0;
    Ok(nonzeros * 12.0 + ORDER * 8.0 + 2.0 * 4.0 * ORDER * 8.0)
}

pub(super) fn tool(programs: &Programs, options: &PmemOptions) -> Result<()> {
    programs.cg(false)?;
    programs.cg(true)?;
    let program = ["--class", "S", "--crash", "power"];
    let mut ratios = Vec::new();
    for _ in 0..options.common.repeats {
        let since = std::time::Instant::now();
        let _ = programs.run("cg-plain", &[&program[..], &["--file", "arrays"]].concat())?;
        let plain = since.elapsed().as_secs_f64();
        std::fs::remove_file(programs.folder.join("arrays"))?;
        let simulated = crash(programs, &["--runs", "1"], &program)?.seconds.1;
        ratios.push(simulated / plain);
    }
    tell("veloc crash: conjugate gradients, class S".to_owned(), "x -O2", ratios, Some(100.0))
}
