//! Every number that the text of HiPC'22 gives of its measurements, all of them in section V-E, by figure. Numbers
//! that only its pictures show are not here.

/// A number of the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperNumber {
    /// The figure that the text speaks of.
    pub figure: &'static str,
    /// What the number is of.
    pub says: &'static str,
    /// The setting, as far as the text gives one.
    pub setting: &'static str,
    /// The number.
    pub value: f64,
    /// The unit of the number.
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// How many times as long the application waits with the other way: for figures 3, 5a, 5b and 6 that is all
    /// memory allocated and pinned up front, for 5c the number says what.
    Times,
    /// By how much less the application waits than with the other way, in percent of that.
    PercentLess,
    /// Bytes.
    GigabytesPerSecond,
}

impl Unit {
    /// The unit behind a number.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unit::Times => "x",
            Unit::PercentLess => "%",
            Unit::GigabytesPerSecond => "GB/s",
        }
    }
}

impl PaperNumber {
    /// The figure, and what the number is of.
    pub(crate) fn what(&self) -> String {
        format!("{}, {}", self.figure, self.says)
    }

    /// The number of processes, if the text gives it.
    pub(crate) fn processes(&self) -> Option<u32> {
        self.setting.split_once(" process")?.0.parse().ok()
    }

    /// The number, where it is a share that is saved as a factor.
    pub(crate) fn factor(&self) -> f64 {
        match self.unit {
            Unit::PercentLess => 100.0 / (100.0 - self.value),
            Unit::Times | Unit::GigabytesPerSecond => self.value,
        }
    }
}

type Text = &'static str;

const fn number(figure: Text, says: Text, setting: Text, value: f64, unit: Unit) -> PaperNumber {
    PaperNumber { figure, says, setting, value, unit }
}

const fn times(figure: Text, says: Text, setting: Text, value: f64) -> PaperNumber {
    number(figure, says, setting, value, Unit::Times)
}

const fn less(figure: Text, says: Text, value: f64) -> PaperNumber {
    number(figure, says, "", value, Unit::PercentLess)
}

const fn rate(figure: Text, says: Text, setting: Text, value: f64) -> PaperNumber {
    number(figure, says, setting, value, Unit::GigabytesPerSecond)
}

// In the paragraph "Checkpointing and overall blocking time of the application", at its end.
pub(crate) const SHOTS: PaperNumber = times("3b", "RTM, checkpoints", "8 processes", 16.7);
pub(crate) const SHOTS_BOTH: PaperNumber =
    times("3c", "RTM, checkpoints and restores", "8 processes", 9.3);

// In "Cache initialization throughput", at its beginning.
pub(crate) const ALLOCATION_OF_1: PaperNumber =
    rate("4a", "cuMemAlloc of the device cache", "1 process", 1200.0);
pub(crate) const ALLOCATION_OF_8: PaperNumber =
    rate("4a", "cuMemAlloc of the device cache", "8 processes", 160.0);

// In "Checkpointing and overall blocking time of the application", for the large device ("up to").
pub(crate) const LARGE_DEVICE: PaperNumber =
    less("4b", "checkpoints, less than with direct allocation", 76.0);
pub(crate) const LARGE_DEVICE_BOTH: PaperNumber =
    less("4c", "checkpoints and restores, less than with direct allocation", 63.0);

// In the same paragraph, for the large host.
pub(crate) const UNIFORM: PaperNumber = times("5a", "checkpoints, up to", "", 12.5);
pub(crate) const UNIFORM_BOTH: PaperNumber =
    times("5b", "checkpoints and restores, up to", "", 7.8);

// In "Comparison of sequential vs. concurrent cache initialization and serial vs. parallel pinning".
pub(crate) const PARALLEL_MEAN: PaperNumber =
    times("5c", "parallel over serial pinning, mean", "", 6.4);
pub(crate) const PARALLEL_MOST: PaperNumber =
    times("5c", "parallel over serial pinning, most", "", 8.0);
pub(crate) const SEQUENTIAL: PaperNumber =
    times("5c", "sequential over concurrent touching", "5 ms", 1.1);
pub(crate) const CONCURRENT_MEAN: PaperNumber =
    times("5c", "concurrent over sequential touching, mean", "above 5 ms", 1.43);
pub(crate) const CONCURRENT_MOST: PaperNumber =
    times("5c", "concurrent over sequential touching, most", "above 5 ms", 2.7);

// In "Scalability", its first paragraph.
pub(crate) const SCALE_1: PaperNumber = times("6a", "checkpoints", "1 process, 20 ms", 7.6);
pub(crate) const SCALE_1_BOTH: PaperNumber =
    times("6b", "checkpoints and restores", "1 process, 20 ms", 4.7);
pub(crate) const SCALE_8: PaperNumber = times("6a", "checkpoints", "8 processes, 20 ms", 27.8);
pub(crate) const SCALE_8_BOTH: PaperNumber =
    times("6b", "checkpoints and restores", "8 processes, 20 ms", 13.6);

// In "Scalability", its last paragraph: the ends of a range of sizes.
pub(crate) const BUFFER_8: PaperNumber =
    times("6c", "checkpoints and restores, host buffer of 8 GB", "", 4.8);
pub(crate) const BUFFER_64: PaperNumber =
    times("6c", "checkpoints and restores, host buffer of 64 GB", "", 12.4);
