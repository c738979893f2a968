//! Whether pages are touched while a flush runs, or only between flushes.
//!
//! HiPC'22, sections IV-A and IV-B: touching and flushing compete for the host's memory bandwidth.
//! *Sequential* touching lets a flush have it alone, and pays when the pauses between flushes are
//! long enough to stay ahead of them. *Concurrent* touching slows the flush at hand and pays when
//! they are not. The paper leaves the choice to a performance model of which it gives the inputs
//! but no formula; this is ours:
//!
//! Let a checkpoint of `s` bytes be flushed every `i` seconds. A byte is flushed at rate `t` onto
//! touched pages and at rate `u` onto untouched ones. If `x` is the share of a flush that finds its
//! pages touched, the flush takes `f(x) = s·x/t + s·(1-x)/u`. Sequential touching has the pauses:
//! `x = min(1, rate · (i - f(x)) / s)`, a fixed point. Concurrent touching has all the time, at the
//! rates that both have under competition: `x = min(1, rate' · max(i, f'(x)) / s)`. The mode with
//! the shorter flush wins; the other must be better by a tenth to replace the one in force, so that
//! noise does not make it flip.

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

/// What the model decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Touch only while no flush runs.
    Sequential = 0,
    /// Touch always.
    Concurrent = 1,
}

/// The paper's ratio of flushing onto untouched and onto touched pages (3 and 6 GB/s, IV-A), used
/// until both have been measured.
const UNTOUCHED_OVER_TOUCHED: f64 = 0.5;
/// What is left of either rate under competition, until it has been measured.
const UNDER_COMPETITION: f64 = 0.7;
/// A flush with a larger share of untouched pages than this measures their rate.
const MOSTLY_UNTOUCHED: f64 = 0.9;
/// Weight of a new measurement in a running mean.
const NEW_WEIGHT: f64 = 0.25;
/// A mode is replaced by one whose flush is shorter than this share of its own.
const SWITCH_BELOW: f64 = 0.9;

/// How a page is given memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchMethod {
    /// Many pages by one system call.
    Populate,
    /// A write to each page, which changes nothing.
    Write,
}

/// How pages are touched unless one of the two is asked for. `refused`: the system may refuse a
/// page even where memory is left (strict overcommit); `populate`: the kernel can populate.
///
/// A call that populates keeps the lock of the address space until its last page is there, and a
/// shorter one takes it again before those who wait have woken up. Meanwhile no thread of the
/// application can map or unmap anything: neither a larger heap, nor a thread's stack. A write needs
/// that lock for no page (Linux 6.4), or for one (before). But it ends the process where the system
/// refuses the page, which a populating call reports.
pub fn touch_method(populate: bool, refused: bool) -> TouchMethod {
    if populate && refused {
        TouchMethod::Populate
    } else {
        TouchMethod::Write
    }
}

/// Without `touch_threads`, the most threads that touch pages.
const THREADS: usize = 4;

/// How many threads touch pages, where the key `touch_threads` is `given` (0: not) and the process
/// may use so many processors.
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

    /// What is left of the rate of flushing onto untouched pages.
    fn untouched_over_touched(&self) -> f64 {
        match (self.flush_untouched.get(), self.on_touched_pages()) {
            (Some(untouched), Some(touched)) => (untouched / touched).min(1.0),
            _ => UNTOUCHED_OVER_TOUCHED,
        }
    }

    /// What is left of the rate of flushing while others are touched.
    fn competition(&self) -> f64 {
        match (self.flush_beside_touch.get(), self.flush_touched.get()) {
            (Some(beside), Some(alone)) => (beside / alone).min(1.0),
            _ => UNDER_COMPETITION,
        }
    }
}

/// How long a flush is predicted to take, in seconds, in either mode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// With sequential touching.
    pub sequential: f64,
    /// With concurrent touching.
    pub concurrent: f64,
}

/// The decision machine.
#[derive(Clone, Debug)]
pub struct Model {
    key: Touch,
    mode: Mode,
    inputs: Inputs,
    /// There is something left to touch, so that the mode matters.
    open: bool,
    last_capture: Option<f64>,
    begun: Option<f64>,
    decisions: u64,
}

impl Model {
    /// A machine for this setting of the key. Until there is anything to decide by, `auto` touches
    /// concurrently: nothing can be disturbed before the first flush has shown its rate.
    pub fn new(key: Touch) -> Self {
        let mode = if key == Touch::Sequential { Mode::Sequential } else { Mode::Concurrent };
        Model {
            key,
            mode,
            inputs: Inputs::default(),
            open: true,
            last_capture: None,
            begun: None,
            decisions: 0,
        }
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What it was decided by.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// What is predicted from what was measured until now.
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

    /// That checkpoint, of `bytes`, was taken at time `now`.
    pub fn captured(&mut self, bytes: u64, now: f64) {
        let mean = |old: f64, new: f64| {
            if old == 0.0 {
                new
            } else {
                old + NEW_WEIGHT * (new - old)
            }
        };
        self.inputs.checkpoint_bytes = mean(self.inputs.checkpoint_bytes, bytes as f64);
        // What the application waits within a checkpoint is no pause between two: counted as one, it
        // would show room for touching just when flushes are late and there is none.
        let begun = self.begun.take().unwrap_or(now);
        if let Some(last) = self.last_capture {
            self.inputs.interval = mean(self.inputs.interval, (begun - last).max(0.0));
        }
        self.last_capture = Some(now);
    }

    /// Nothing is left to touch: the mode stays, and nothing is predicted any more to decide on it.
    pub fn all_touched(&mut self) {
        self.open = false;
    }

    /// There is something to touch, perhaps again.
    pub fn touch_begins(&mut self) {
        self.open = true;
    }

    /// `bytes` of pages were touched in `seconds`, beside a flush or not.
    pub fn touched(&mut self, bytes: u64, seconds: f64, beside_flush: bool) {
        let rate = if beside_flush {
            &mut self.inputs.touch_beside_flush
        } else {
            &mut self.inputs.touch_alone
        };
        rate.add(bytes, seconds);
    }

    /// A flush of `bytes` took `seconds`; `untouched` of them went to untouched pages; others were
    /// touched meanwhile, or not. Decides anew, if there is a choice.
    pub fn flushed(&mut self, bytes: u64, untouched: u64, seconds: f64, beside_touch: bool) {
        let ratio = self.inputs.untouched_over_touched();
        if (untouched as f64) > MOSTLY_UNTOUCHED * bytes as f64 {
            // Known without competition only: what competition costs is known from touched pages.
            let seconds = if beside_touch { seconds * self.inputs.competition() } else { seconds };
            self.inputs.flush_untouched.add(bytes, seconds);
        } else {
            // A flush onto a mixture measures the rate onto touched pages, if each byte to an
            // untouched one is counted as the several that would have taken as long.
            let as_touched = (bytes - untouched) + (untouched as f64 / ratio) as u64;
            let rate = if beside_touch {
                &mut self.inputs.flush_beside_touch
            } else {
                &mut self.inputs.flush_touched
            };
            rate.add(as_touched, seconds);
        }
        // At the end of each flush, which for host memory is the application's time: a prediction
        // takes a quarter of what a small checkpoint costs.
        if self.key == Touch::Auto && self.open {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let Some(prediction) = self.prediction() else {
            return;
        };
        let better = match self.mode {
            Mode::Sequential if prediction.concurrent < SWITCH_BELOW * prediction.sequential => {
                Mode::Concurrent
            }
            Mode::Concurrent if prediction.sequential < SWITCH_BELOW * prediction.concurrent => {
                Mode::Sequential
            }
            same => same,
        };
        if better != self.mode {
            self.mode = better;
            self.decisions += 1;
        }
    }
}

/// The length of a flush in either mode. `None` before a checkpoint, an interval, a touch rate and
/// a flush rate are known.
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

/// Iterates `length = f(length)` with damping: `f` is monotone and bounded, so this settles.
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
