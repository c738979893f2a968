//! Whether pages are touched while a flush runs, or only between flushes.
//!
//! Touching and flushing compete for the host's memory bandwidth (HiPC'22, sections IV-A and IV-B).
//! *Sequential* touching leaves the bandwidth to the flush, and pays off when the pauses between flushes
//! are long enough to stay ahead of them. *Concurrent* touching slows the current flush, and pays off
//! when they are not. The paper names the inputs of a performance model but no formula; this one is
//! ours:
//!
//! A checkpoint of `s` bytes is flushed every `i` seconds, at rate `t` onto touched pages and `u` onto
//! untouched ones. If `x` is the share of the flush that finds its pages touched, the flush takes `f(x)
//! = s·x/t + s·(1-x)/u`. Sequential touching uses the pauses: `x = min(1, rate · (i - f(x)) / s)`, a
//! fixed point. Concurrent touching uses all the time, at the rates under competition: `x = min(1, rate'
//! · max(i, f'(x)) / s)`. The mode with the shorter flush wins; it must be a tenth better to replace the
//! current mode, so that noise does not make it flip.

use serde::{Deserialize, Serialize};

/// The key `touch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Touch {
    /// Decide by the model, again after each flush.
    #[default]
    Auto,
    /// Only while no flush runs.
    Sequential,
    /// Always.
    Concurrent,
}

/// The decision of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchMode {
    /// Touch only while no flush runs.
    Sequential = 0,
    /// Touch always.
    Concurrent = 1,
}

/// The paper's ratio of flushing onto untouched and onto touched pages (3 and 6 GB/s, IV-A), used
/// until both have been measured.
const UNTOUCHED_OVER_TOUCHED: f64 = 0.5;
/// The share of either rate that remains under competition, until it is measured.
const UNDER_COMPETITION: f64 = 0.7;
/// A flush with a larger share of untouched pages than this measures the rate onto untouched pages.
const MOSTLY_UNTOUCHED: f64 = 0.9;
/// Weight of a new measurement in a running mean.
const NEW_WEIGHT: f64 = 0.25;
/// A mode is replaced if the other's flush is shorter than this share of its own.
const SWITCH_BELOW: f64 = 0.9;

/// How a page is faulted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMethod {
    /// Many pages by one system call (`MADV_POPULATE_WRITE`).
    Populate,
    /// By writing to each page without changing it.
    Write,
}

/// How pages are touched. `refused`: the system may refuse a page although memory is left (strict
/// overcommit). `populate`: the kernel can populate.
///
/// A populating call holds the address-space lock until its last page is mapped, and takes it again
/// before waiting threads have woken up; meanwhile no thread can map or unmap memory. A write needs that
/// lock for at most one page (none since Linux 6.4). But a refused page kills the process, while a
/// populating call reports an error.
pub fn touch_method(populate: bool, refused: bool) -> FaultMethod {
    if populate && refused {
        FaultMethod::Populate
    } else {
        FaultMethod::Write
    }
}

/// The most touching threads if `touch_threads` is not set.
const THREADS: usize = 4;

/// How many threads touch pages. `given`: the key `touch_threads` (0: not set); `processors`: how many
/// the process may use.
pub fn threads(given: usize, processors: usize) -> usize {
    match given {
        0 => (processors / 2).clamp(1, THREADS),
        given => given,
    }
}

/// A running mean of a rate, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate(Option<f64>);

impl Rate {
    /// Adds a transfer of `bytes` in `seconds`.
    pub fn add(&mut self, bytes: u64, seconds: f64) {
        if bytes > 0 && seconds > 0.0 {
            let rate = bytes as f64 / seconds;
            self.0 = Some(self.0.map_or(rate, |mean| mean + NEW_WEIGHT * (rate - mean)));
        }
    }

    /// The mean, if anything was measured.
    pub fn get(self) -> Option<f64> {
        self.0
    }
}

/// The inputs of the decision. Rates in bytes per second, times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inputs {
    /// Touching while no flush runs.
    pub touch_alone: Rate,
    /// Touching while a flush runs.
    pub touch_beside_flush: Rate,
    /// Flushing onto touched pages while nothing is touched.
    pub flush_touched: Rate,
    /// Flushing onto untouched pages.
    pub flush_untouched: Rate,
    /// Flushing onto touched pages while others are touched.
    pub flush_beside_touch: Rate,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: f64,
    /// Time from the end of one checkpoint to the beginning of the next.
    pub interval: f64,
}

impl Inputs {
    /// The rate of flushing onto touched pages while nothing is touched, measured or inferred.
    fn on_touched_pages(&self) -> Option<f64> {
        self.flush_touched
            .get()
            .or_else(|| self.flush_beside_touch.get().map(|rate| rate / UNDER_COMPETITION))
            .or_else(|| self.flush_untouched.get().map(|rate| rate / UNTOUCHED_OVER_TOUCHED))
    }

    /// The share of the flush rate that remains on untouched pages.
    fn untouched_over_touched(&self) -> f64 {
        match (self.flush_untouched.get(), self.on_touched_pages()) {
            (Some(untouched), Some(touched)) => (untouched / touched).min(1.0),
            _ => UNTOUCHED_OVER_TOUCHED,
        }
    }

    /// The share of the flush rate that remains beside touching.
    fn competition(&self) -> f64 {
        match (self.flush_beside_touch.get(), self.flush_touched.get()) {
            (Some(beside), Some(alone)) => (beside / alone).min(1.0),
            _ => UNDER_COMPETITION,
        }
    }
}

/// The predicted duration of a flush in each mode, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// With sequential touching.
    pub sequential: f64,
    /// With concurrent touching.
    pub concurrent: f64,
}

/// The performance model and its decision.
#[derive(Clone, Debug)]
pub struct TouchModel {
    key: Touch,
    mode: TouchMode,
    inputs: Inputs,
    /// Something is left to touch, so the mode matters.
    open: bool,
    last_capture: Option<f64>,
    begun: Option<f64>,
    decisions: u64,
}

impl TouchModel {
    /// A model for this setting of the key. `auto` starts concurrently: before the first flush there is
    /// nothing to disturb.
    pub fn new(key: Touch) -> Self {
        let mode =
            if key == Touch::Sequential { TouchMode::Sequential } else { TouchMode::Concurrent };
        TouchModel {
            key,
            mode,
            inputs: Inputs::default(),
            open: true,
            last_capture: None,
            begun: None,
            decisions: 0,
        }
    }

    /// The current mode.
    pub fn mode(&self) -> TouchMode {
        self.mode
    }

    /// The measured inputs.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The prediction from what was measured so far.
    pub fn prediction(&self) -> Option<Prediction> {
        predict(&self.inputs)
    }

    /// How often the mode has changed.
    pub fn changes(&self) -> u64 {
        self.decisions
    }

    /// The application asks for a checkpoint at time `now` (seconds from any origin).
    pub fn begun(&mut self, now: f64) {
        self.begun = Some(now);
    }

    /// The checkpoint that was asked for, of `bytes`, was captured at time `now`.
    pub fn captured(&mut self, bytes: u64, now: f64) {
        let mean = |old: f64, new: f64| {
            if old == 0.0 {
                new
            } else {
                old + NEW_WEIGHT * (new - old)
            }
        };
        self.inputs.checkpoint_bytes = mean(self.inputs.checkpoint_bytes, bytes as f64);
        // Time that the application waits within a checkpoint is not a pause: counted as one, it would
        // suggest time for touching just when flushes are late.
        let begun = self.begun.take().unwrap_or(now);
        if let Some(last) = self.last_capture {
            self.inputs.interval = mean(self.inputs.interval, (begun - last).max(0.0));
        }
        self.last_capture = Some(now);
    }

    /// All pages are touched: the mode stays as it is.
    pub fn all_touched(&mut self) {
        self.open = false;
    }

    /// A page is being touched, perhaps again.
    pub fn touch_begins(&mut self) {
        self.open = true;
    }

    /// `bytes` were touched in `seconds`, beside a flush or not.
    pub fn touched(&mut self, bytes: u64, seconds: f64, beside_flush: bool) {
        let rate = if beside_flush {
            &mut self.inputs.touch_beside_flush
        } else {
            &mut self.inputs.touch_alone
        };
        rate.add(bytes, seconds);
    }

    /// A flush of `bytes` took `seconds`, of which `untouched` bytes went to untouched pages, with
    /// touching beside it or not. Decides again if there is a choice.
    pub fn flushed(&mut self, bytes: u64, untouched: u64, seconds: f64, beside_touch: bool) {
        let ratio = self.inputs.untouched_over_touched();
        if (untouched as f64) > MOSTLY_UNTOUCHED * bytes as f64 {
            // The competition factor is measured on touched pages only.
            let seconds = if beside_touch { seconds * self.inputs.competition() } else { seconds };
            self.inputs.flush_untouched.add(bytes, seconds);
        } else {
            // For a mixed flush, each byte to an untouched page counts as the number of touched ones
            // that take as long.
            let as_touched = (bytes - untouched) + (untouched as f64 / ratio) as u64;
            let rate = if beside_touch {
                &mut self.inputs.flush_beside_touch
            } else {
                &mut self.inputs.flush_touched
            };
            rate.add(as_touched, seconds);
        }
        // Decided at the end of each flush. For host memory that is the application's time: a prediction
        // takes a quarter of a small checkpoint's cost.
        if self.key == Touch::Auto && self.open {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let Some(prediction) = self.prediction() else {
            return;
        };
        let better = match self.mode {
            TouchMode::Sequential
                if prediction.concurrent < SWITCH_BELOW * prediction.sequential =>
            {
                TouchMode::Concurrent
            }
            TouchMode::Concurrent
                if prediction.sequential < SWITCH_BELOW * prediction.concurrent =>
            {
                TouchMode::Sequential
            }
            same => same,
        };
        if better != self.mode {
            self.mode = better;
            self.decisions += 1;
        }
    }
}

/// The predicted duration of a flush in each mode. `None` until a checkpoint, an interval, a touch rate
/// and a flush rate are known.
pub fn predict(inputs: &Inputs) -> Option<Prediction> {
    let size = inputs.checkpoint_bytes;
    let interval = inputs.interval;
    if size <= 0.0 || interval <= 0.0 {
        return None;
    }
    let touch_alone = inputs
        .touch_alone
        .get()
        .or_else(|| inputs.touch_beside_flush.get().map(|rate| rate / UNDER_COMPETITION))?;
    let touch_beside = inputs.touch_beside_flush.get().unwrap_or(touch_alone * UNDER_COMPETITION);
    let flush_touched = inputs.on_touched_pages()?;
    let flush_untouched = flush_touched * inputs.untouched_over_touched();
    let competition = inputs.competition();

    let flush = |share: f64, touched: f64, untouched: f64| {
        size * share / touched + size * (1.0 - share) / untouched
    };
    let sequential = fixed_point(|length| {
        let share = (touch_alone * (interval - length).max(0.0) / size).min(1.0);
        flush(share, flush_touched, flush_untouched)
    });
    let concurrent = fixed_point(|length| {
        let share = (touch_beside * interval.max(length) / size).min(1.0);
        flush(share, flush_touched * competition, flush_untouched * competition)
    });
    Some(Prediction { sequential, concurrent })
}

/// Iterates `length = f(length)` with damping; it converges because `f` is monotone and bounded.
fn fixed_point(f: impl Fn(f64) -> f64) -> f64 {
    let mut length = f(0.0);
    for _ in 0..32 {
        length = 0.5 * (length + f(length));
    }
    length
}

#[cfg(test)]
#[path = "touch_tests.rs"]
mod tests;
