//! The command line: its options, their checks, and the run they add up to.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::model::Model;
use crate::report::number;
use crate::shot::Schedule;
use crate::store::Form;
use crate::wave::coefficients::{default_step, longest_step, ricker_delay};
use crate::wave::Grid;

/// Reverse-time migration of one shot, its wavefields kept by the checkpoint library.
///
/// Models the shot's data in a velocity model, then migrates them with a smooth one: the forward
/// pass checkpoints the source's wavefield every few steps, the backward pass restores it in
/// reverse and correlates it with the receivers'. Without --velocity the model is generated.
#[derive(Parser, Debug)]
#[command(version, max_term_width = 100, allow_negative_numbers = true)]
pub(crate) struct Options {
    /// True velocity model: little-endian 32-bit floats in m/s, depth fastest
    #[arg(long, value_name = "FILE", requires_all = ["nx", "nz", "dx"], help_heading = "Model")]
    pub velocity: Option<PathBuf>,
    /// Columns of the model files
    #[arg(long, value_name = "N", requires = "velocity", value_parser = points, help_heading = "Model")]
    pub nx: Option<usize>,
    /// Depth samples of the model files
    #[arg(long, value_name = "N", requires = "velocity", value_parser = points, help_heading = "Model")]
    pub nz: Option<usize>,
    /// Grid spacing of the model files
    #[arg(long, value_name = "METRES", requires = "velocity", value_parser = above_zero, help_heading = "Model")]
    pub dx: Option<f32>,
    /// Compute on a grid this many times finer than the model's
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8), help_heading = "Model")]
    pub refine: u8,
    /// Model to migrate with, of the same size [default: the true one, smoothed]
    #[arg(long, value_name = "FILE", requires = "velocity", help_heading = "Model")]
    pub migration_velocity: Option<PathBuf>,
    /// Radius over which the true model is smoothed to migrate with it [default: 10 grid spacings]
    #[arg(long, value_name = "METRES", conflicts_with = "migration_velocity", value_parser = above_zero, help_heading = "Model")]
    pub smooth: Option<f32>,

    /// Time steps of each pass [default: enough for the deepest reflections to come back]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Shot")]
    pub steps: Option<usize>,
    /// Time step [default: 70 % of the longest stable one]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero, help_heading = "Shot")]
    pub dt: Option<f32>,
    /// Peak frequency of the source [default: 9 grid points per wavelength in the slowest medium]
    #[arg(long, value_name = "HERTZ", value_parser = above_zero, help_heading = "Shot")]
    pub frequency: Option<f32>,
    /// Steps from one checkpoint to the next [default: ten per period of the source]
    #[arg(long, value_name = "STEPS", value_parser = count, help_heading = "Shot")]
    pub interval: Option<usize>,
    /// Where the source stands along x [default: the middle]
    #[arg(long, value_name = "METRES", help_heading = "Shot")]
    pub source: Option<f32>,
    /// How many receivers stand along the surface [default: one per grid point]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Shot")]
    pub receivers: Option<usize>,

    /// Where to compute; `auto` takes the GPU if there is a driver with a device
    #[arg(long, value_enum, default_value_t = Device::Auto, help_heading = "Run")]
    pub device: Device,
    /// Compress the states, without loss, before they are checkpointed
    #[arg(long, help_heading = "Run")]
    pub compress: bool,
    /// Keep so many bits of each value of a state: 8, 12 or 16 (VELOC_Mem_compress)
    #[arg(long, value_name = "BITS", value_parser = bits, conflicts_with = "compress", help_heading = "Run")]
    pub bits: Option<u8>,
    /// The most that this may change a value, as a part of the largest of its state
    #[arg(long, value_name = "PART", default_value_t = 0.02, requires = "bits", value_parser = part, help_heading = "Run")]
    pub bound: f64,
    /// Run again with every state in plain memory and require a bit-identical image; with --bits, tell how far the image is
    /// from it
    #[arg(long, help_heading = "Run")]
    pub verify: bool,
    /// Configuration of the checkpoint library [default: a temporary one with caches alone]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpu_cache", "host_cache"], help_heading = "Run")]
    pub config: Option<PathBuf>,
    /// The library's cache on the device [default: a quarter of all states]
    #[arg(long, value_name = "GIB", value_parser = above_zero, help_heading = "Run")]
    pub gpu_cache: Option<f32>,
    /// The library's cache on the host [default: room for all states]
    #[arg(long, value_name = "GIB", value_parser = above_zero, help_heading = "Run")]
    pub host_cache: Option<f32>,

    /// Picture to write
    #[arg(long, value_name = "FILE", default_value = "rtm.png", help_heading = "Output")]
    pub output: PathBuf,
    /// Also write the figures of the run as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Also write the values of the image: 32-bit floats, column by column from the surface down
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub data: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// The GPU if there is a CUDA driver with a device, else the host.
    Auto,
    /// The CUDA driver's first device.
    Gpu,
    /// The host's cores.
    Host,
}

/// A number above zero.
fn above_zero(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        Ok(_) => Err("must be a number above 0".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// The bits of a value.
fn bits(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| [8, 12, 16].contains(number));
    number.ok_or_else(|| "must be 8, 12 or 16".into())
}

/// A part of a whole.
fn part(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1e-9..=1.0).contains(number));
    number.ok_or_else(|| "must be a number from 1e-9 to 1".into())
}

/// A whole number from one on.
fn count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(value) if value > MOST_STEPS => Err(format!("must be at most {MOST_STEPS}")),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

/// Points of an axis.
fn points(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(value) if (FEWEST_POINTS..=MOST_POINTS).contains(&value) => Ok(value),
        Ok(_) => Err(format!("must be between {FEWEST_POINTS} and {MOST_POINTS}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The smallest and largest axis of a model.
const FEWEST_POINTS: usize = 32;
const MOST_POINTS: usize = 16_384;

/// More steps than any run needs; versions are 32-bit numbers.
const MOST_STEPS: usize = 10_000_000;

/// Grid points per wavelength of the peak frequency, in the slowest medium, by default.
const POINTS_PER_WAVE: f32 = 9.0;

/// Depth of source and receivers, in grid points below the top.
const SPREAD_DEPTH: usize = 2;

/// A value that does not fit the others; the message names the option and the value.
#[derive(Debug)]
pub(crate) struct Unfit(pub String);

/// The run that the options describe, for these models.
#[derive(Debug)]
pub(crate) struct Plan {
    pub grid: Grid,
    /// The time step in seconds.
    pub dt: f32,
    /// The source's peak frequency in hertz.
    pub frequency: f32,
    /// The highest velocity of both models in m/s.
    pub fastest: f32,
    /// Steps and checkpoints.
    pub schedule: Schedule,
    /// The source's column and depth sample.
    pub source: (usize, usize),
    /// The receivers' columns, and their depth sample.
    pub receivers: (Vec<usize>, usize),
}

impl Options {
    /// The size of the model files.
    pub(crate) fn file_size(&self) -> Option<(usize, usize, f32)> {
        Some((self.nx?, self.nz?, self.dx?))
    }

    /// How states are handed to the library.
    pub(crate) fn form(&self) -> Form {
        match (self.bits, self.compress) {
            (Some(bits), _) => Form::Bits(bits.into(), self.bound),
            (None, true) => Form::Packed,
            (None, false) => Form::Whole,
        }
    }

    /// The radius in metres over which to smooth a model with this spacing in metres.
    pub(crate) fn smoothing(&self, dx: f32) -> f32 {
        self.smooth.unwrap_or(10.0 * dx * f32::from(self.refine))
    }

    /// Fills in the defaults and checks each value against the models.
    pub(crate) fn plan(&self, model: &Model, smooth: &Model) -> Result<Plan, Unfit> {
        let ((slowest, a), (_, b)) = (model.range(), smooth.range());
        let (fastest, dx) = (a.max(b), model.dx);
        let dt = self.dt.unwrap_or_else(|| default_step(fastest, dx));
        let longest = longest_step(fastest, dx);
        if dt > longest {
            return Err(Unfit(format!(
                "--dt {dt}: the longest stable step at {} m/s on {} m is {} s",
                number(fastest),
                number(dx),
                number(longest)
            )));
        }
        let frequency = self.frequency.unwrap_or(slowest / (POINTS_PER_WAVE * dx));
        let highest = slowest / (4.0 * dx);
        if frequency > highest {
            return Err(Unfit(format!(
                "--frequency {frequency}: a grid of {} m carries at most {} Hz at {} m/s",
                number(dx),
                number(highest),
                number(slowest)
            )));
        }
        let width = (model.nx - 1) as f32 * dx;
        let x = self.source.unwrap_or(width / 2.0);
        if !(0.0..=width).contains(&x) {
            let width = number(width);
            return Err(Unfit(format!("--source {x}: the model reaches from 0 to {width} m")));
        }
        let count = self.receivers.unwrap_or(model.nx);
        if count > model.nx {
            return Err(Unfit(format!(
                "--receivers {count}: the model has {} columns, one receiver each",
                model.nx
            )));
        }
        let columns = (0..count).map(|n| (2 * n + 1) * model.nx / (2 * count)).collect();
        let steps = self.steps.unwrap_or_else(|| {
            let depth = model.nz as f32 * dx;
            let path = 2.0 * depth.hypot(width / 4.0);
            ((path / model.mean() + 2.0 * ricker_delay(frequency)) / dt).ceil() as usize
        });
        let interval =
            self.interval.unwrap_or_else(|| ((0.1 / (frequency * dt)) as usize).max(1)).min(steps);
        if self.interval.is_some_and(|asked| asked > steps) {
            return Err(Unfit(format!(
                "--interval {}: there are only {steps} steps, so no checkpoint",
                self.interval.unwrap_or_default()
            )));
        }
        Ok(Plan {
            grid: Grid { nx: model.nx, nz: model.nz },
            dt,
            frequency,
            fastest,
            schedule: Schedule { steps, interval },
            source: ((x / dx).round() as usize, SPREAD_DEPTH),
            receivers: (columns, SPREAD_DEPTH),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Options, String> {
        let words = std::iter::once("rtm").chain(line.split_whitespace());
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    fn plan(line: &str) -> Result<Plan, Unfit> {
        let model = Model { nx: 100, nz: 50, dx: 10.0, velocity: vec![2000.0; 5000] };
        parse(line).unwrap().plan(&model, &model)
    }

    #[test]
    fn the_declaration_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn bad_values_are_refused_with_option_and_value() {
        for (line, option, value) in [
            ("--dt 0", "--dt", "'0'"),
            ("--dt -1", "--dt", "-1"),
            ("--frequency nan", "--frequency", "nan"),
            ("--interval 0", "--interval", "'0'"),
            ("--steps many", "--steps", "many"),
            ("--refine 9", "--refine", "9"),
            ("--device tpu", "--device", "tpu"),
            ("--gpu-cache inf", "--gpu-cache", "inf"),
            ("--bits 9", "--bits", "'9'"),
            ("--bits 8 --bound 2", "--bound", "'2'"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(option) && error.contains(value), "{line}: {error}");
        }
    }

    #[test]
    fn options_that_need_or_exclude_others_say_so() {
        for (line, other) in [
            ("--velocity a.vp --nx 100 --nz 100", "--dx"),
            ("--nx 100", "--velocity"),
            ("--config a.cfg --gpu-cache 1", "--gpu-cache"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(other), "{line}: {error}");
        }
    }

    #[test]
    fn values_that_do_not_fit_the_model_are_refused_with_option_and_value() {
        for (line, words) in [
            ("--dt 0.01", "--dt 0.01"),
            ("--frequency 80", "--frequency 80"),
            ("--source 1000", "--source 1000"),
            ("--source -1", "--source -1"),
            ("--receivers 101", "--receivers 101"),
            ("--steps 10 --interval 11", "--interval 11"),
        ] {
            let Unfit(message) = plan(line).unwrap_err();
            assert!(message.starts_with(words), "{line}: {message}");
        }
    }

    #[test]
    fn defaults_make_a_stable_and_complete_run() {
        let plan = plan("").unwrap();
        assert!(plan.dt < longest_step(2000.0, 10.0));
        assert_eq!(plan.source.0, 50);
        assert_eq!(plan.receivers.0, (0..100).collect::<Vec<_>>());
        // The way down to 500 m and back takes half a second.
        assert!(plan.schedule.steps as f32 * plan.dt > 0.5);
        assert!(plan.schedule.checkpoints() > 50);
    }

    #[test]
    fn receivers_stand_on_columns_of_their_own_over_the_whole_width() {
        let columns = plan("--receivers 7").unwrap().receivers.0;
        assert_eq!(columns, [7, 21, 35, 50, 64, 78, 92]);
    }
}
