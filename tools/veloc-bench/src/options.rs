//! The options of `veloc-bench run`, and the plans that they ask for: every combination of the
//! lists, the approaches last, so that those compared take turns.

mod effect;
mod keys;

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Result};
use clap::Args;
use os::size;

pub(crate) use self::effect::{check as check_effect, distinct, name_of};
pub(crate) use self::keys::default_of;
use self::keys::{check_keys, variants, with_keys};
use super::plan::{
    ApproachName, Compute, HintAmount, LevelConfiguration, PointPlan, RestoreSequence,
};
use super::results::MeasuredDevice;
use super::workload::{self, Sizes};

/// How much is kept, and where.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct Amounts {
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
    /// Rows of the file to use, from the start again after the last; not of a generated trace
    #[arg(long, requires = "trace")]
    pub rows: Option<usize>,
    /// Multiplies the sizes of the trace [default: 1; generated, on the software device 0.002]
    #[arg(long, requires = "trace")]
    pub scale: Option<f64>,
    /// Bytes of the device cache of each process [default: 4G, or what all checkpoints need in the
    /// large-device configuration; on the software device 8M]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub device_cache: Option<u64>,
    /// Bytes that the device cache of ours may grow to [default: it does not grow]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub device_cache_most: Option<u64>,
    /// Bytes of the host buffer of each process [default: 32G; on the software device 64M]
    #[arg(long, value_parser = size::parse, value_delimiter = ',', value_name = "LIST")]
    pub host_cache: Vec<u64>,
    /// Do not compare what was restored
    #[arg(long)]
    pub no_verify: bool,
    /// For random orders and generated traces [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What to run, and against what.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct RunOptions {
    /// The ways to keep checkpoints that are compared
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "ours,direct-pin")]
    pub approach: Vec<ApproachName>,
    /// Which level has room for all checkpoints
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "large-host")]
    pub configuration: Vec<LevelConfiguration>,
    /// Processes that start together
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=256))]
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
    pub order: RestoreSequence,
    /// What the application says of the restores ahead [default: all]
    #[arg(long, value_enum)]
    pub hints: Option<HintAmount>,
    /// Values of the library's key `touch` [default: the library's]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub touch: Vec<String>,
    /// Values of the library's key `pin` [default: the library's]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub pin: Vec<String>,
    /// Values of any key of the library's, as `touch_threads=1,2,4`
    #[arg(long, value_name = "KEY=LIST")]
    pub vary: Vec<String>,
}

/// The longest interval in ms: an hour.
const LONGEST_INTERVAL: f64 = 3.6e6;

/// The most checkpoints of a process.
const MOST_CHECKPOINTS: usize = 10_000_000;

/// The defaults of a series.
struct Defaults {
    count: usize,
    size: u64,
    scale: f64,
    device_cache: u64,
    host_cache: u64,
}

impl Defaults {
    /// The paper's amounts (section V-C and V-D).
    const PAPER: Defaults = Defaults {
        count: 256,
        size: 128 << 20,
        scale: 1.0,
        device_cache: 4 << 30,
        host_cache: 32 << 30,
    };
    /// Small amounts: only the behaviour of the software device means anything.
    const SOFTWARE: Defaults = Defaults {
        count: 48,
        size: 1 << 20,
        scale: 0.002,
        device_cache: 8 << 20,
        host_cache: 64 << 20,
    };
}

impl RunOptions {
    /// This library and the paper's baseline, one process, a checkpoint every 20 ms.
    pub(crate) fn new(amounts: Amounts) -> RunOptions {
        RunOptions {
            approach: vec![ApproachName::Ours, ApproachName::DirectPin],
            configuration: vec![LevelConfiguration::LargeHost],
            processes: vec![1],
            amounts,
            interval: vec![20.0],
            compute: Compute::Sleep,
            order: RestoreSequence::Reverse,
            hints: None,
            touch: Vec::new(),
            pin: Vec::new(),
            vary: Vec::new(),
        }
    }

    /// The combinations that are left out because they are impossible, each with the reason.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for configuration in &self.configuration {
            for approach in &self.approach {
                if let Some(why) = approach.cannot(*configuration) {
                    let names = (name_of(approach), name_of(configuration));
                    reasons.push(format!("{} in the configuration {}: {why}", names.0, names.1));
                }
            }
        }
        reasons
    }

    /// The plans of these options, for this device.
    pub(crate) fn plans(&self, device: &MeasuredDevice) -> Result<Vec<PointPlan>> {
        let defaults = if device.software { Defaults::SOFTWARE } else { Defaults::PAPER };
        let variants = variants(&self.vary)?;
        let or_default = |given: &[String], key: &str| match given {
            [] => vec![default_of(key).to_owned()],
            given => given.to_vec(),
        };
        let (seed, hints) = (self.amounts.seed.unwrap_or(1), self.hints.unwrap_or(HintAmount::All));
        let (touches, pins) = (or_default(&self.touch, "touch"), or_default(&self.pin, "pin"));
        let host_caches = match &self.amounts.host_cache[..] {
            [] => vec![defaults.host_cache],
            given => given.to_vec(),
        };
        let mut plans: Vec<PointPlan> = Vec::new();
        for &configuration in &self.configuration {
            for &processes in &self.processes {
                let sizes = self.sizes(processes, &defaults)?;
                let host_caches = match configuration {
                    LevelConfiguration::LargeDevice => &[0][..],
                    LevelConfiguration::LargeHost => &host_caches,
                };
                for &host_cache in host_caches {
                    for &interval in &self.interval {
                        ensure!(
                            (0.0..=LONGEST_INTERVAL).contains(&interval),
                            "--interval {interval}: wanted is 0 to {LONGEST_INTERVAL} ms"
                        );
                        let possible = |name: &&ApproachName| name.cannot(configuration).is_none();
                        for &approach in self.approach.iter().filter(possible) {
                            let base = PointPlan {
                                approach,
                                configuration,
                                processes,
                                workload: self.workload(),
                                interval_ms: interval,
                                compute: self.compute,
                                device_cache: self.device_cache(configuration, &sizes, &defaults),
                                device_cache_most: self
                                    .amounts
                                    .device_cache_most
                                    .filter(|_| approach == ApproachName::Ours),
                                host_cache,
                                sizes: sizes.clone(),
                                order: self.order,
                                hints,
                                touch: String::new(),
                                pin: String::new(),
                                settings: Vec::new(),
                                verify: !self.amounts.no_verify,
                                seed,
                            };
                            base.check()?;
                            plans.extend(with_keys(base, &touches, &pins, &variants));
                        }
                    }
                }
            }
        }
        ensure!(!plans.is_empty(), "{}", self.left_out().join("; "));
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
        ensure!(
            scale > 0.0 && scale.is_finite(),
            "--scale {scale}: wanted is a finite number above 0"
        );
        match self.amounts.trace.as_deref() {
            None => {
                let size = self.amounts.size.unwrap_or(defaults.size);
                let count = self.amounts.count.unwrap_or(defaults.count);
                ensure!(
                    (1..=MOST_CHECKPOINTS).contains(&count),
                    "--count {count}: wanted is 1 to {MOST_CHECKPOINTS}"
                );
                ensure!(
                    size > 0 && size.is_multiple_of(workload::WORD),
                    "--size {size}: wanted is a multiple of {} bytes",
                    workload::WORD
                );
                Ok(workload::uniform(size, count))
            }
            Some(workload::GENERATED) => {
                if let Some(rows) = self.amounts.rows {
                    bail!(
                        "--rows {rows}: a generated trace has as many checkpoints as come to 20 to \
                         24 GB; --rows is for a trace from a file"
                    );
                }
                Ok(workload::generated(processes, scale, self.amounts.seed.unwrap_or(1)))
            }
            Some(file) => {
                if let Some(rows) = self.amounts.rows {
                    ensure!(
                        (1..=MOST_CHECKPOINTS).contains(&rows),
                        "--rows {rows}: wanted is 1 to {MOST_CHECKPOINTS}"
                    );
                }
                // The sizes of a file are used as they stand, on whatever device.
                let scale = self.amounts.scale.unwrap_or(1.0);
                let sizes = workload::from_csv(Path::new(file), self.amounts.rows, scale)?;
                ensure!(
                    processes as usize <= sizes.len(),
                    "--processes {processes}: the trace {file} has {} columns, one for each process",
                    sizes.len()
                );
                Ok(sizes)
            }
        }
    }

    fn device_cache(
        &self,
        configuration: LevelConfiguration,
        sizes: &Sizes,
        defaults: &Defaults,
    ) -> u64 {
        let all = sizes.iter().map(|sizes| room(sizes)).max().unwrap_or(0);
        match (self.amounts.device_cache, configuration) {
            (Some(given), _) => given,
            (None, LevelConfiguration::LargeDevice) => all,
            (None, LevelConfiguration::LargeHost) => defaults.device_cache,
        }
    }
}

/// Bytes of a level that has room for all checkpoints: each copy begins at a multiple of a granule.
fn room(sizes: &[u64]) -> u64 {
    const GRANULE: u64 = 64 << 10;
    sizes.iter().map(|size| size.next_multiple_of(GRANULE)).sum::<u64>().next_multiple_of(2 << 20)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: RunOptions,
    }

    fn options(arguments: &str) -> Result<RunOptions> {
        let words = std::iter::once("bench").chain(arguments.split_whitespace());
        Ok(Command::try_parse_from(words)?.options)
    }

    fn plans(arguments: &str) -> Result<Vec<PointPlan>> {
        options(arguments)?.plans(&MeasuredDevice { software: true, ..MeasuredDevice::default() })
    }

    #[test]
    fn every_combination_is_planned_and_those_compared_take_turns() {
        let plans = plans(
            "--approach ours,direct-pin --interval 5,10 --touch auto,sequential --pin serial,off \
             --vary touch_threads=1,2",
        )
        .unwrap();
        // Eight combinations of this library and one baseline at each interval.
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
            ("--vary touch_threds=1", "the library has no key touch_threds"),
            ("--pin sometimes", "sometimes"),
            ("--vary pin=off", "--vary pin=off: pin cannot be varied so: say --pin"),
            ("--vary touch_threads=1,1", "--vary touch_threads: 1 is there twice"),
            ("--vary touch_threads=1 --vary touch_threads=2", "is varied already"),
            ("--vary pin_chunk_size=x", "--vary pin_chunk_size=x"),
            ("--touch never", "--touch never"),
            ("--size 10", "--size 10: wanted is a multiple of 4"),
            ("--count 0", "--count 0"),
            ("--interval -1", "-1"),
            ("--trace /nowhere.csv", "/nowhere.csv"),
            ("--trace /nowhere.csv --rows 0", "--rows 0"),
            ("--trace generated --rows 3", "--rows 3: a generated trace"),
            ("--processes 0", "--processes"),
            ("--device-cache 1K", "--device-cache 1 KiB (1024 bytes)"),
            ("--device-cache-most 8M", "--device-cache-most 8 MiB"),
            ("--approach ring --configuration large-device", "ring keeps everything on the host"),
        ] {
            let error = format!("{:#}", plans(arguments).unwrap_err());
            assert!(error.contains(named), "{arguments}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_is_left_out_beside_what_can() {
        let (both, lists) = ("--configuration large-device,large-host", "--host-cache 64M,96M");
        let plans = plans(&format!("--approach ours,ring {both} {lists}")).unwrap();
        let named = |plan: &PointPlan| (plan.approach, plan.configuration, plan.host_cache >> 20);
        use ApproachName::{Ours, Ring};
        use LevelConfiguration::{LargeDevice, LargeHost};
        assert_eq!(
            plans.iter().map(named).collect::<Vec<_>>(),
            [
                // Without a host buffer, the sizes of the host buffer make no combinations.
                (Ours, LargeDevice, 0),
                (Ours, LargeHost, 64),
                (Ring, LargeHost, 64),
                (Ours, LargeHost, 96),
                (Ring, LargeHost, 96),
            ]
        );
        let options = options(&format!("--approach ours,ring {both}")).unwrap();
        assert!(options.left_out()[0].starts_with("ring in the configuration large-device: "));
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for (arguments, named) in [
            ("--approach direct-pin --pin off", "--pin off: a setting of ours"),
            ("--approach ring --vary touch_threads=1", "--vary touch_threads=1"),
            ("--configuration large-device --host-cache 1G", "large-device"),
            ("--approach ring --hints one", "--hints one"),
            ("--seed 7", "--seed 7"),
            ("--approach ours,ours", "--approach: ours is there twice"),
            ("--processes 1,2,1", "--processes: 1 is there twice"),
            ("--interval 5,5.0", "--interval: 5 is there twice"),
        ] {
            let error = check_effect(&options(arguments).unwrap()).unwrap_err().to_string();
            assert!(error.contains(named), "{arguments}: {error}");
        }
        for effective in [
            "--approach ours,ring --pin off --hints one --device-cache 8M",
            "--configuration large-device,large-host --host-cache 1G",
            "--seed 7 --order random",
            "--seed 7 --trace generated",
        ] {
            check_effect(&options(effective).unwrap()).unwrap();
        }
    }
}
