//! `veloc crash`: simulates crashes of a program that computes in persistent memory, and judges what it makes of them.
//!
//! `campaign` starts the program with the crashes that are `chosen`; a fork of it at each of them becomes `judge`. `mutate`
//! leaves out calls in turn; `seen` reads what the simulation has written, and `report` shows what was found.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{ensure, Context as _, Result};
use clap::{Args, ValueEnum};
use os::size;
use serde::Serialize;

use crate::output;

mod campaign;
mod chosen;
pub(crate) mod judge;
mod mutate;
mod report;
mod seen;

/// Simulate crashes of a program that computes in persistent memory
///
/// The program is compiled with -fsanitize=thread, and linked without it but with -lveloc-crash before
/// -lveloc-client. One run gives many crashes: at each the program is started on what the crash would have left, and its
/// exit code and output have to be those of a run without a crash.
///
/// Ends with exit code 1 for any wrong result, and if code that was not compiled so has stored to persistent memory.
#[derive(Debug, Args)]
pub(crate) struct CrashCommand {
    /// Crashes to simulate: half of them just before or behind flushes, drains and marks, the others at any accesses
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The processor's cache
    #[arg(long, value_name = "SIZE,WAYS", default_value = "8MiB,16", value_parser = shape)]
    cache: CacheShape,
    /// Which line leaves the cache: of its set the one that was used the longest ago, or any
    #[arg(long, value_name = "HOW", default_value = "lru")]
    replace: Replacement,
    /// What a crash leaves: all that was stored; what was flushed and drained; what msync reached [default: process for
    /// files opened with VELOC_CRASH_PROCESS, power for others]
    #[arg(long)]
    model: Option<CrashModel>,
    /// The chance that what was not flushed is there; "cache": what the cache wrote back is; "few-lost", "few-kept": all of
    /// it but one to three lines is, or is not; "all": 0, 0.5, 0.99 and these in turn
    #[arg(long, value_name = "CHANCE", default_value = "all", value_parser = coin)]
    coin: CoinChances,
    /// Chooses the crashes, and what each leaves
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Crashed programs that go on at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Judges a result instead: run by `sh -c` in the folder of the crash, where `stdout` is what the program has printed;
    /// exit code 0 means right
    #[arg(long, value_name = "COMMAND")]
    compare: Option<OsString>,
    /// Leave out each flush, drain and mark of the program in turn, and say which are needed
    #[arg(long)]
    mutate: bool,
    /// Repeat one crash, and keep its folder
    #[arg(long, value_name = "SEED/NUMBER", conflicts_with_all = ["mutate", "runs", "seed"], value_parser = only)]
    only: Option<(u64, u64)>,
    /// Also write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug)]
struct CacheShape {
    bytes: u64,
    ways: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum CrashModel {
    Process,
    Power,
    Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Replacement {
    Lru,
    Random,
}

/// The chances of the crashes, as they were written.
#[derive(Clone, Debug)]
struct CoinChances(Vec<String>);

impl CrashCommand {
    /// The options that choose what is simulated, as far as they are not the defaults, each with a space behind it.
    fn repeated(&self) -> String {
        let CacheShape { bytes, ways } = self.cache;
        let model = self.model.and_then(|model| model.to_possible_value());
        let model = model.map_or_else(String::new, |model| model.get_name().to_owned());
        let coin = if self.coin.0.len() > 1 { "all" } else { &self.coin.0[0] };
        let all = [
            (format!("--cache {bytes}B,{ways} "), (bytes, ways) != (8 << 20, 16)),
            ("--replace random ".to_owned(), self.replace == Replacement::Random),
            (format!("--model {model} "), self.model.is_some()),
            (format!("--coin {coin} "), coin != "all"),
        ];
        all.into_iter().filter(|(_, is_set)| *is_set).map(|(text, _)| text).collect()
    }
}

fn shape(text: &str) -> Result<CacheShape> {
    let (bytes, ways) =
        text.split_once(',').context("it must be a size and the ways, as in 8MiB,16")?;
    let bytes = size::parse(bytes.trim_end_matches("iB"))?;
    let ways: u64 = ways.trim().parse().context("the ways must be a number")?;
    ensure!((1..=64).contains(&ways), "the ways must be 1 to 64");
    let sets = bytes / 64 / ways;
    ensure!(
        sets.is_power_of_two() && sets * 64 * ways == bytes,
        "the size has to be 64 bytes times the ways times a power of two"
    );
    ensure!(bytes >= 4096, "the size must be at least 4096 bytes: a copy would not fit");
    Ok(CacheShape { bytes, ways })
}

fn coin(text: &str) -> Result<CoinChances> {
    let all = match text {
        "all" => vec!["0", "0.5", "0.99", "cache", "few-lost", "few-kept"],
        "cache" | "few-lost" | "few-kept" => vec![text],
        chance => {
            let chance: f64 = chance.parse().context("the chance must be a number")?;
            ensure!((0.0..=1.0).contains(&chance), "the chance must be from 0 to 1");
            vec![text]
        }
    };
    Ok(CoinChances(all.into_iter().map(str::to_owned).collect()))
}

fn only(text: &str) -> Result<(u64, u64)> {
    let (seed, number) = text.split_once('/').context("it must be SEED/NUMBER")?;
    Ok((
        seed.parse().context("SEED must be a whole number")?,
        number.parse().context("NUMBER must be a whole number")?,
    ))
}

pub(crate) fn run(crash: &CrashCommand) -> Result<ExitCode> {
    let campaign = campaign::Campaign::begin(crash)?;
    let found = campaign.run()?;
    // What is wrong with all calls tells nothing of one.
    let mutations = match crash.mutate && found.credible() && found.wrong() == 0 {
        true => Some(mutate::run(&campaign, &found)?),
        false => None,
    };
    if crash.mutate && mutations.is_none() {
        eprintln!(
            "no call was left out: first, all crashes have to end right, and all stores to be seen"
        );
    }
    let kept = campaign.keep(&found);
    let report = report::CrashReport::new(crash, &found, mutations, kept);
    if let Some(path) = &crash.json {
        let text = serde_json::to_string_pretty(&report).context("the results")?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    output::print(&report.text())?;
    Ok(if report.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
