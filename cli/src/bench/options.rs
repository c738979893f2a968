//! The options of `veloc bench run`, and the plans that they ask for: every combination of the
//! lists, the approaches last, so that those compared take turns.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use veloc_client::config::{Config, Role, KEYS};

use super::plan::{ApproachName, Compute, Configuration, Hints, Order, Plan};
use super::results::Device;
use super::workload::{self, Sizes};
use crate::size;

/// How much is kept, and where.
#[derive(Clone, Debug, Default, Args)]
pub struct Amounts {
    /// Checkpoints of each process [default: 256; on the software device 48]
    #[arg(long, conflicts_with = "trace")]
    pub count: Option<usize>,
    /// Bytes of a checkpoint [default: 128M; on the software device 1M]
    #[arg(long, value_parser = size::parse, conflicts_with = "trace")]
    pub size: Option<u64>,
    /// Sizes from a file (comma-separated bytes; a row for each checkpoint, a column for each
    /// process), or `generated`: shots of 20 to 24 GB
    #[arg(long, value_name = "FILE|generated")]
    pub trace: Option<String>,
    /// Rows of the file to use, from the start again after the last
    #[arg(long, requires = "trace")]
    pub rows: Option<usize>,
    /// Multiplies the sizes of the trace [default: 1; generated, on the software device 0.002]
    #[arg(long, requires = "trace")]
    pub scale: Option<f64>,
    /// Bytes of the device cache of each process [default: 4G, or what all checkpoints need in the
    /// large-device configuration; on the software device 8M]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub device_cache: Option<u64>,
    /// Bytes of the host buffer of each process [default: 32G; on the software device 64M]
    #[arg(long, value_parser = size::parse, value_delimiter = ',', value_name = "LIST")]
    pub host_cache: Vec<u64>,
    /// Do not compare what was restored
    #[arg(long)]
    pub no_verify: bool,
    /// For random orders and generated traces
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What to run, and against what.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The ways to keep checkpoints that are compared
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "ours,direct-pin")]
    pub approach: Vec<ApproachName>,
    /// Which tier has room for all checkpoints
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "large-host")]
    pub configuration: Vec<Configuration>,
    /// Processes that start together
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1")]
    pub processes: Vec<u32>,
    #[command(flatten)]
    pub amounts: Amounts,
    /// Time between checkpoints, and between restores, in ms
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "20")]
    #[arg(allow_negative_numbers = true)]
    pub interval: Vec<f64>,
    /// What the device does meanwhile
    #[arg(long, value_enum, default_value = "sleep")]
    pub compute: Compute,
    /// The order of restores
    #[arg(long, value_enum, default_value = "reverse")]
    pub order: Order,
    /// What the application says of the restores ahead
    #[arg(long, value_enum, default_value = "all")]
    pub hints: Hints,
    /// Values of the library's key `touch` [default: the library's]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub touch: Vec<String>,
    /// Values of the library's key `pin` [default: the library's]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub pin: Vec<String>,
    /// Values of any key of the library's, as `touch_threads=1,2,4`
    #[arg(long, value_name = "KEY=LIST")]
    pub vary: Vec<String>,
    /// How often each point is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
}

/// The longest interval in ms: an hour.
const LONGEST_INTERVAL: f64 = 3.6e6;

/// The most checkpoints of a process.
const MOST_CHECKPOINTS: usize = 10_000_000;

/// The sizes that go without saying.
struct Defaults {
    count: usize,
    size: u64,
    scale: f64,
    device_cache: u64,
    host_cache: u64,
}

impl Defaults {
    /// Those of the paper (section V-C and V-D).
    const PAPER: Defaults = Defaults {
        count: 256,
        size: 128 << 20,
        scale: 1.0,
        device_cache: 4 << 30,
        host_cache: 32 << 30,
    };
    /// Small ones: only the behaviour of the software device means anything.
    const SOFTWARE: Defaults = Defaults {
        count: 48,
        size: 1 << 20,
        scale: 0.002,
        device_cache: 8 << 20,
        host_cache: 64 << 20,
    };
}

impl Options {
    /// This library and the paper's baseline, one process, every 20 ms.
    pub fn new(amounts: Amounts) -> Options {
        Options {
            approach: vec![ApproachName::Ours, ApproachName::DirectPin],
            configuration: vec![Configuration::LargeHost],
            processes: vec![1],
            amounts,
            interval: vec![20.0],
            compute: Compute::Sleep,
            order: Order::Reverse,
            hints: Hints::All,
            touch: Vec::new(),
            pin: Vec::new(),
            vary: Vec::new(),
            repeats: 1,
        }
    }

    /// The plans, for this device.
    pub fn plans(&self, device: &Device) -> Result<Vec<Plan>> {
        let defaults = if device.software { Defaults::SOFTWARE } else { Defaults::PAPER };
        let variants = variants(&self.vary)?;
        let or_default = |given: &[String], key: &str| match given {
            [] => vec![default_of(key).to_owned()],
            given => given.to_vec(),
        };
        let (touches, pins) = (or_default(&self.touch, "touch"), or_default(&self.pin, "pin"));
        let host_caches = match &self.amounts.host_cache[..] {
            [] => vec![defaults.host_cache],
            given => given.to_vec(),
        };
        let mut plans: Vec<Plan> = Vec::new();
        for &configuration in &self.configuration {
            for &processes in &self.processes {
                let sizes = self.sizes(processes, &defaults)?;
                for &host_cache in &host_caches {
                    for &interval in &self.interval {
                        ensure!(
                            (0.0..=LONGEST_INTERVAL).contains(&interval),
                            "--interval {interval}: wanted is 0 to {LONGEST_INTERVAL} ms"
                        );
                        for &approach in &self.approach {
                            let base = Plan {
                                approach,
                                configuration,
                                processes,
                                workload: self.workload(),
                                interval_ms: interval,
                                compute: self.compute,
                                device_cache: self.device_cache(configuration, &sizes, &defaults),
                                host_cache: match configuration {
                                    Configuration::LargeDevice => 0,
                                    Configuration::LargeHost => host_cache,
                                },
                                sizes: sizes.clone(),
                                order: self.order,
                                hints: self.hints,
                                touch: String::new(),
                                pin: String::new(),
                                settings: Vec::new(),
                                verify: !self.amounts.no_verify,
                                seed: self.amounts.seed,
                            };
                            base.check()?;
                            plans.extend(with_keys(base, &touches, &pins, &variants));
                        }
                    }
                }
            }
        }
        check_keys(&plans)?;
        Ok(plans)
    }

    fn workload(&self) -> String {
        match &self.amounts.trace {
            None => "uniform".to_owned(),
            Some(trace) => match PathBuf::from(trace).file_name() {
                Some(name) => name.to_string_lossy().into_owned(),
                None => trace.clone(),
            },
        }
    }

    fn sizes(&self, processes: u32, defaults: &Defaults) -> Result<Sizes> {
        let scale = self.amounts.scale.unwrap_or(defaults.scale);
        ensure!(scale > 0.0 && scale.is_finite(), "--scale {scale}: not more than 0");
        match self.amounts.trace.as_deref() {
            None => {
                let size = self.amounts.size.unwrap_or(defaults.size);
                let count = self.amounts.count.unwrap_or(defaults.count);
                ensure!(count <= MOST_CHECKPOINTS, "--count {count}: more than {MOST_CHECKPOINTS}");
                Ok(workload::uniform(size, count))
            }
            Some(workload::GENERATED) => {
                Ok(workload::generated(processes, scale, self.amounts.seed))
            }
            Some(file) => {
                // A file's sizes are meant as they stand, on whatever device.
                let scale = self.amounts.scale.unwrap_or(1.0);
                workload::from_csv(Path::new(file), self.amounts.rows, scale)
            }
        }
    }

    fn device_cache(
        &self,
        configuration: Configuration,
        sizes: &Sizes,
        defaults: &Defaults,
    ) -> u64 {
        let all = sizes.iter().map(|sizes| room(sizes)).max().unwrap_or(0);
        match (self.amounts.device_cache, configuration) {
            (Some(given), _) => given,
            (None, Configuration::LargeDevice) => all,
            (None, Configuration::LargeHost) => defaults.device_cache,
        }
    }
}

/// Bytes of a tier that has room for all: each copy begins at a multiple of a granule.
fn room(sizes: &[u64]) -> u64 {
    const GRANULE: u64 = 64 << 10;
    sizes.iter().map(|size| size.next_multiple_of(GRANULE)).sum::<u64>().next_multiple_of(2 << 20)
}

/// The combinations of keys, for this library; the other approaches know none of them.
fn with_keys(
    base: Plan,
    touches: &[String],
    pins: &[String],
    variants: &[Vec<String>],
) -> Vec<Plan> {
    if base.approach != ApproachName::Ours {
        return vec![base];
    }
    let mut plans = Vec::new();
    for touch in touches {
        for pin in pins {
            for settings in variants {
                plans.push(Plan {
                    touch: touch.clone(),
                    pin: pin.clone(),
                    settings: settings.clone(),
                    ..base.clone()
                });
            }
        }
    }
    plans
}

/// Every combination of the values of `--vary`, as settings.
fn variants(vary: &[String]) -> Result<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for text in vary {
        let (key, values) =
            text.split_once('=').with_context(|| format!("--vary {text}: wanted is KEY=LIST"))?;
        let more = |before: &Vec<String>| {
            let values =
                values.split(',').map(|value| format!("{} = {}", key.trim(), value.trim()));
            values.map(|setting| [&before[..], &[setting]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(more).collect();
    }
    Ok(all)
}

/// What stands in for a key that is not given.
pub fn default_of(key: &str) -> &'static str {
    let role = KEYS.iter().find(|known| known.name == key).map(|known| known.role);
    match role {
        Some(Role::Default(value)) => value,
        _ => "",
    }
}

/// Refuses what the library would refuse or ignore, before anything is measured.
fn check_keys(plans: &[Plan]) -> Result<()> {
    for plan in plans.iter().filter(|plan| plan.approach == ApproachName::Ours) {
        let keys = [format!("touch = {}", plan.touch), format!("pin = {}", plan.pin)];
        let text = format!(
            "mode = async\nephemeral = true\n{}\n{}\n",
            keys.join("\n"),
            plan.settings.join("\n")
        );
        let (_, warnings) =
            Config::from_text(&text, |_| None).map_err(|error| anyhow::anyhow!("{error}"))?;
        if let Some(warning) = warnings.first() {
            bail!("{warning}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn plans(arguments: &str) -> Result<Vec<Plan>> {
        let words = std::iter::once("bench").chain(arguments.split_whitespace());
        Command::try_parse_from(words)?
            .options
            .plans(&Device { software: true, ..Device::default() })
    }

    #[test]
    fn every_combination_is_planned_and_those_compared_take_turns() {
        let plans = plans(
            "--approach ours,direct-pin --interval 5,10 --touch auto,sequential --pin serial,off \
             --vary touch_threads=1,2",
        )
        .unwrap();
        // Eight kinds of ours and one baseline at each interval.
        assert_eq!(plans.len(), 2 * (8 + 1));
        assert_eq!(plans[8].approach, ApproachName::DirectPin);
        assert_eq!(plans[8].pin, "");
        assert_eq!(plans[1].settings, ["touch_threads = 2"]);
        assert!(plans[..9].iter().all(|plan| plan.interval_ms == 5.0));
    }

    #[test]
    fn the_librarys_own_defaults_are_planned() {
        let plan = &plans("--approach ours").unwrap()[0];
        assert_eq!(plan.pin, default_of("pin"));
        assert!(!plan.touch.is_empty());
    }

    #[test]
    fn a_large_device_has_room_for_all_and_no_host_buffer() {
        let plan = &plans("--configuration large-device --count 3 --size 100000").unwrap()[0];
        assert_eq!((plan.device_cache, plan.host_cache), (2 << 20, 0));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        for (arguments, named) in [
            ("--host-cache 1M", "1048576"),
            ("--vary touch_threads", "touch_threads"),
            ("--vary touch_threds=1", "touch_threds"),
            ("--pin sometimes", "sometimes"),
            ("--size 10", "multiple of 4"),
            ("--interval -1", "-1"),
            ("--trace /nowhere.csv", "/nowhere.csv"),
            ("--processes 0", "processes: 0"),
        ] {
            let error = format!("{:#}", plans(arguments).unwrap_err());
            assert!(error.contains(named), "{arguments}: {error}");
        }
    }
}
