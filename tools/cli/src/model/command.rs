//! The command `veloc bench model`.

use std::path::PathBuf;

use anyhow::{ensure, Context as _, Result};
use clap::{Args, ValueEnum};
use config::LARGEST_PIN_CHUNK;
use policy::register::Pin;
use policy::touch::Touch;
use serde::Serialize;

use super::node::NodeName;
use super::predict::{predict, Prediction, TITLE};
use super::scenario::{Scenario, Staging};
use super::{claims, paper, report};
use crate::bench::plan::ApproachName;
use crate::bench::results::{prepare, write_json};

/// Without `--node`, the model beside the numbers of HiPC'22. With it, predictions for that node:
/// one for each combination of what is given.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Predict for this node
    #[arg(long)]
    node: Option<NodeName>,
    /// Processes that start together, dealt out to the GPUs in turn
    #[arg(long, value_delimiter = ',', default_value = "1", requires = "node")]
    processes: Vec<usize>,
    /// Computing before each checkpoint and each restore, in ms
    #[arg(long, value_name = "MS", value_delimiter = ',', default_value = "20", requires = "node")]
    interval: Vec<f64>,
    /// The ways to keep checkpoints
    #[arg(long, value_delimiter = ',', default_value = "ours,direct-pin", requires = "node")]
    approach: Vec<ApproachName>,
    /// Settings of the key `pin`; without any, the library's default
    #[arg(long, value_delimiter = ',', requires = "node")]
    pin: Vec<PinName>,
    /// Settings of the key `touch`; without any, the library's default
    #[arg(long, value_delimiter = ',', requires = "node")]
    touch: Vec<TouchName>,
    /// Host buffers of each process, without any 32G; 0: the device cache holds everything
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, requires = "node")]
    host_cache: Vec<u64>,
    /// Device caches of each process, without any 4G
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, requires = "node")]
    device_cache: Vec<u64>,
    /// Settings of the key `pin_chunk_size`; the same
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, requires = "node")]
    pin_chunk: Vec<u64>,
    /// Settings of the key `gpu_chunk_size`; the same
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, requires = "node")]
    map_chunk: Vec<u64>,
    /// Who stages copies with memory that is not registered: the library's ring, as it does, or the driver
    #[arg(long, value_delimiter = ',', requires = "node")]
    staging: Vec<Staging>,
    /// Bytes of a checkpoint
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "128M", requires = "node")]
    size: u64,
    /// Checkpoints of each process; without it as many as the largest cache holds
    #[arg(long, requires = "node")]
    checkpoints: Option<usize>,
    /// Show the figures that the node is made of, and where they come from
    #[arg(long, requires = "node")]
    figures: bool,
    /// Write everything to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The key `pin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PinName {
    /// All chunks once all pages are touched, in turn
    Serial,
    /// The same without turns
    Parallel,
    /// Each chunk as soon as it is touched, in turn
    Chunked,
    /// Never
    Off,
}

/// The key `touch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TouchName {
    /// As the library finds best
    Auto,
    /// Between flushes
    Sequential,
    /// Always
    Concurrent,
}

impl PinName {
    fn key(self) -> Pin {
        match self {
            PinName::Serial => Pin::Serial,
            PinName::Parallel => Pin::Parallel,
            PinName::Chunked => Pin::Chunked,
            PinName::Off => Pin::Off,
        }
    }
}

impl TouchName {
    fn key(self) -> Touch {
        match self {
            TouchName::Auto => Touch::Auto,
            TouchName::Sequential => Touch::Sequential,
            TouchName::Concurrent => Touch::Concurrent,
        }
    }
}

/// Bytes: a number, and K, M, G or T behind it (powers of 1024).
fn size(text: &str) -> Result<u64> {
    let text = text.trim();
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(digits, "{text} is no size, as 64M is");
    // Of digits alone, it can only be too large.
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.with_context(|| format!("{text}: at most {} bytes are possible", u64::MAX))
}

/// What goes to the file.
#[derive(Serialize)]
struct Compared {
    title: &'static str,
    rows: Vec<paper::Row>,
    claims: Vec<claims::Claim>,
}

#[derive(Serialize)]
struct Predicted {
    title: &'static str,
    node: super::node::Node,
    predictions: Vec<Prediction>,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<()> {
    options.out.as_deref().map_or(Ok(()), prepare)?;
    match options.node {
        None => {
            let (rows, claims) = (paper::rows()?, claims::claims()?);
            print!("{}", report::comparison(&rows, &claims));
            write(options, &Compared { title: report::COMPARISON, rows, claims })
        }
        Some(name) => {
            let node = name.node();
            if options.figures {
                print!("{}", report::figures(&node));
            }
            let predictions =
                options.scenarios(name)?.iter().map(predict).collect::<Result<Vec<_>>>()?;
            print!("{}", report::predictions(&predictions));
            write(options, &Predicted { title: TITLE, node, predictions })
        }
    }
}

fn write(options: &Options, what: &impl Serialize) -> Result<()> {
    options.out.as_deref().map_or(Ok(()), |path| write_json(path, what))
}

impl Options {
    /// Refuses what would take all memory or all time, or what the library would refuse.
    fn check(&self) -> Result<()> {
        let mib = 1 << 20;
        ensure!(self.size >= mib, "--size {} bytes: less than 1 MiB", self.size);
        let most = 100_000;
        let checkpoints = self.checkpoints.unwrap_or(1);
        ensure!((1..=most).contains(&checkpoints), "--checkpoints {checkpoints}: not 1 to {most}");
        for interval in &self.interval {
            ensure!((0.0..=3.6e6).contains(interval), "--interval {interval}: not 0 to 3600000 ms");
        }
        for chunk in &self.pin_chunk {
            let fits = (1..=LARGEST_PIN_CHUNK).contains(chunk);
            ensure!(fits, "--pin-chunk {chunk} bytes: not 1 to {LARGEST_PIN_CHUNK}");
        }
        ensure!(self.map_chunk.iter().all(|chunk| *chunk > 0), "--map-chunk 0: nothing is mapped");
        for processes in &self.processes {
            let most = 4096;
            ensure!((1..=most).contains(processes), "--processes {processes}: not 1 to {most}");
        }
        Ok(())
    }

    /// One scenario for each combination.
    fn scenarios(&self, node: NodeName) -> Result<Vec<Scenario>> {
        self.check()?;
        let mut all = vec![Scenario::large_host(node.node(), ApproachName::Ours, 1, 0.0)?];
        vary(&mut all, &self.device_cache, |s, v| s.device_cache = v);
        vary(&mut all, &self.host_cache, |s, v| s.host_cache = v);
        for scenario in &mut all {
            let room = scenario.host_cache.max(scenario.device_cache);
            let fit = (room / self.size.max(1)) as usize;
            scenario.sizes = vec![vec![self.size; self.checkpoints.unwrap_or(fit)]];
        }
        vary(&mut all, &self.interval, |s, v| s.interval = v * 1e-3);
        vary(&mut all, &self.processes, |s, v| s.processes = v);
        vary(&mut all, &self.approach, |s, v| s.approach = v);
        // What only this library has is varied for it alone.
        let ours = |s: &Scenario| s.approach == ApproachName::Ours;
        let (mut own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(ours);
        vary(&mut own, &self.touch, |s, v| s.touch = v.key());
        vary(&mut own, &self.pin, |s, v| s.pin = v.key());
        vary(&mut own, &self.pin_chunk, |s, v| s.pin_chunk = v);
        vary(&mut own, &self.map_chunk, |s, v| s.map_chunk = v);
        vary(&mut own, &self.staging, |s, v| s.staging = v);
        own.extend(others);
        own.sort_by(|a, b| a.processes.cmp(&b.processes).then(a.interval.total_cmp(&b.interval)));
        Ok(own)
    }
}

/// Makes of each scenario one for each value. Without values all stay as they are.
fn vary<V: Copy>(all: &mut Vec<Scenario>, values: &[V], set: impl Fn(&mut Scenario, V)) {
    if values.is_empty() {
        return;
    }
    *all = std::mem::take(all)
        .into_iter()
        .flat_map(|scenario| {
            let set = &set;
            values.iter().map(move |&value| {
                let mut scenario = scenario.clone();
                set(&mut scenario, value);
                scenario
            })
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64M").unwrap(), 64 << 20);
        assert_eq!(size("8g").unwrap(), 8 << 30);
        assert_eq!(size("512").unwrap(), 512);
        assert!(size("M").is_err() && size("1.5G").is_err());
        assert!(size("99999999999T").unwrap_err().to_string().contains("99999999999T"));
    }
}
