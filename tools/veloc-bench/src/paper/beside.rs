//! What one file of results has beside each number of the paper. Ratios are of medians, and never of two files.

use os::size;

use super::numbers::{self, PaperNumber};
use crate::host::number;
use crate::options::default_of;
use crate::plan::{
    ApproachName, Compute, HintAmount, LevelConfiguration, PointPlan, RestoreSequence,
};
use crate::results::{Initialisation, Measurement, ProcessFigures, Results, Spread};
use crate::workload::GENERATED;

/// Our number beside one of the paper's.
#[derive(Clone, Debug)]
pub(super) struct OurNumber {
    /// The number; where the paper gives a share that is saved, the factor.
    pub value: f64,
    /// The times behind it, if it is of one setting, and the setting.
    pub how: String,
    /// How many processes it is of.
    pub processes: u32,
    /// Bytes of all processes: with more, it is nearer to the paper.
    pub bytes: u64,
}

/// Finds our number in the points of a file, if they have it.
pub(super) type Find = fn(&Points) -> Option<OurNumber>;

/// The paper's numbers, and how ours are found.
pub(super) const ROWS: [(PaperNumber, Find); 19] = [
    (numbers::SHOTS, |points| points.shots(CHECKPOINTS)),
    (numbers::SHOTS_BOTH, |points| points.shots(BOTH)),
    (numbers::ALLOCATION_OF_1, |points| points.allocation(1)),
    (numbers::ALLOCATION_OF_8, |points| points.allocation(8)),
    (numbers::LARGE_DEVICE, |points| points.large_device(CHECKPOINTS)),
    (numbers::LARGE_DEVICE_BOTH, |points| points.large_device(BOTH)),
    (numbers::UNIFORM, |points| points.uniform(CHECKPOINTS)),
    (numbers::UNIFORM_BOTH, |points| points.uniform(BOTH)),
    (numbers::PARALLEL_MEAN, |points| over_intervals(&points.pinned(), mean)),
    (numbers::PARALLEL_MOST, |points| over_intervals(&points.pinned(), most)),
    (numbers::SEQUENTIAL, |points| mean(&points.touched("concurrent", |ms| ms == SHORTEST))),
    (numbers::CONCURRENT_MEAN, |points| over_intervals(&points.longer(), mean)),
    (numbers::CONCURRENT_MOST, |points| over_intervals(&points.longer(), most)),
    (numbers::SCALE_1, |points| points.scale(1, CHECKPOINTS)),
    (numbers::SCALE_1_BOTH, |points| points.scale(1, BOTH)),
    (numbers::SCALE_8, |points| points.scale(8, CHECKPOINTS)),
    (numbers::SCALE_8_BOTH, |points| points.scale(8, BOTH)),
    (numbers::BUFFER_8, |points| points.buffer(1)),
    (numbers::BUFFER_64, |points| points.buffer(8)),
];

/// Blocked time of one process.
type Blocked = fn(&ProcessFigures) -> f64;
const CHECKPOINTS: Blocked = ProcessFigures::checkpoint_total;
const BOTH: Blocked = ProcessFigures::total;

/// The interval of the paper's benchmark of several processes, in ms, and of its other one where the text gives none.
const USUAL: f64 = 20.0;
/// The paper's smallest interval, in ms.
const SHORTEST: f64 = 5.0;

/// The points of one file that are like the paper's: idle intervals, restored in reverse, all hints.
#[derive(Debug)]
pub(super) struct Points<'a> {
    points: Vec<Measurement>,
    initialisation: &'a [Initialisation],
}

/// One setting measured in two ways.
#[derive(Debug)]
struct Comparison<'a> {
    plan: &'a PointPlan,
    /// Blocked time in seconds, of one way.
    time: f64,
    /// Blocked time of the other way.
    other: f64,
}

impl Comparison<'_> {
    fn ratio(&self) -> f64 {
        self.other / self.time
    }
}

impl Points<'_> {
    /// The runs of equal plans are put together.
    pub(super) fn of(results: &Results) -> Points<'_> {
        let mut points: Vec<Measurement> = Vec::new();
        for new in results.measurements.iter().filter(|new| is_papers(&new.plan)) {
            match points.iter_mut().find(|known| known.plan == new.plan) {
                Some(known) => known.runs.extend(new.runs.iter().cloned()),
                None => points.push(new.clone()),
            }
        }
        Points { points, initialisation: &results.initialisation }
    }

    /// Figure 4a: of each process, while so many allocate at once.
    fn allocation(&self, processes: u32) -> Option<OurNumber> {
        let of = |point: &&Initialisation| {
            point.what == Initialisation::ALLOCATED && point.processes == processes
        };
        let rates = |point: &Initialisation| {
            let mean = |times: &Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
            point.seconds.iter().map(|times| point.bytes as f64 / mean(times) / 1e9).collect()
        };
        let found = self.initialisation.iter().filter(of).filter_map(|point| {
            let rate = Spread::of(rates(point))?.median;
            let how = format!("{} each, on one device", size::show(point.bytes));
            let bytes = point.bytes * u64::from(processes);
            Some(OurNumber { value: rate, how, processes, bytes })
        });
        found.max_by_key(|number| number.bytes)
    }

    fn shots(&self, blocked: Blocked) -> Option<OurNumber> {
        let like = |plan: &PointPlan| is_large_host(plan, GENERATED) && plan.interval_ms == USUAL;
        most(&nearest(self.against_direct(blocked, like)))
    }

    fn large_device(&self, blocked: Blocked) -> Option<OurNumber> {
        let like = |plan: &PointPlan| plan.configuration == LevelConfiguration::LargeDevice;
        most(&nearest(self.against_direct(blocked, like)))
    }

    fn uniform(&self, blocked: Blocked) -> Option<OurNumber> {
        let like = |plan: &PointPlan| is_large_host(plan, UNIFORM) && plan.processes == 1;
        most(&nearest(self.against_direct(blocked, like)))
    }

    fn scale(&self, processes: u32, blocked: Blocked) -> Option<OurNumber> {
        let like = |plan: &PointPlan| {
            is_large_host(plan, UNIFORM) && plan.processes == processes && plan.interval_ms == USUAL
        };
        most(&nearest(self.against_direct(blocked, like)))
    }

    /// Figure 6c, with a host buffer of so many times the least one that the same checkpoints were planned with.
    fn buffer(&self, times: u64) -> Option<OurNumber> {
        let like = |plan: &PointPlan| {
            is_large_host(plan, UNIFORM) && plan.processes == 1 && plan.interval_ms == USUAL
        };
        let wanted = |plan: &PointPlan| {
            let same = self.points.iter().map(|point| &point.plan);
            let same = same.filter(|other| like(other) && other.sizes == plan.sizes);
            let buffers: Vec<u64> = same.map(|other| other.host_cache).collect();
            let (least, most) = (buffers.iter().min(), buffers.iter().max());
            like(plan)
                && least != most
                && least.is_some_and(|least| plan.host_cache == least * times)
        };
        most(&nearest(self.against_direct(BOTH, wanted)))
    }

    /// Figure 5c: `pin = parallel` over `serial`, in several processes.
    fn pinned(&self) -> Vec<Comparison<'_>> {
        let like = |plan: &PointPlan| plan.pin == "serial" && plan.processes > 1;
        let other = |plan: &PointPlan| PointPlan { pin: "parallel".to_owned(), ..plan.clone() };
        nearest(self.compare(BOTH, like, other))
    }

    /// Figure 5c: the other way of touching over this one, not pinned in parallel.
    fn touched(&self, way: &str, interval: impl Fn(f64) -> bool) -> Vec<Comparison<'_>> {
        let other = if way == "concurrent" { "sequential" } else { "concurrent" };
        let like = |plan: &PointPlan| {
            plan.touch == way
                && interval(plan.interval_ms)
                && ["serial", default_of("pin")].contains(&&*plan.pin)
        };
        let other = |plan: &PointPlan| PointPlan { touch: other.to_owned(), ..plan.clone() };
        nearest(self.compare(BOTH, like, other))
    }

    /// The same where the paper's smallest interval is left out.
    fn longer(&self) -> Vec<Comparison<'_>> {
        self.touched("sequential", |ms| ms > SHORTEST)
    }

    /// `direct-pin` over the library with its defaults.
    fn against_direct(
        &self,
        blocked: Blocked,
        like: impl Fn(&PointPlan) -> bool,
    ) -> Vec<Comparison<'_>> {
        let ours = |plan: &PointPlan| {
            plan.approach == ApproachName::Ours
                && plan.touch == default_of("touch")
                && plan.pin == default_of("pin")
        };
        let direct = |plan: &PointPlan| PointPlan {
            approach: ApproachName::DirectPin,
            touch: String::new(),
            pin: String::new(),
            ..plan.clone()
        };
        self.compare(blocked, |plan| ours(plan) && like(plan), direct)
    }

    /// All points that were measured in one way, and in the other.
    fn compare(
        &self,
        blocked: Blocked,
        like: impl Fn(&PointPlan) -> bool,
        other: impl Fn(&PointPlan) -> PointPlan,
    ) -> Vec<Comparison<'_>> {
        let compared = self.points.iter().filter(|point| like(&point.plan)).filter_map(|point| {
            let wanted = other(&point.plan);
            let other = self.points.iter().find(|other| other.plan == wanted)?;
            let (time, other) = (point.spread(blocked)?.median, other.spread(blocked)?.median);
            (time > 0.0).then_some(Comparison { plan: &point.plan, time, other })
        });
        compared.collect()
    }
}

/// Where the sizes of equal checkpoints come from.
const UNIFORM: &str = "uniform";

fn is_papers(plan: &PointPlan) -> bool {
    plan.compute == Compute::Sleep
        && plan.order == RestoreSequence::Reverse
        && plan.hints == HintAmount::All
        && plan.settings.is_empty()
}

/// Whether the checkpoints are for the host buffer: the device cache has no room for all of them.
fn is_large_host(plan: &PointPlan, workload: &str) -> bool {
    plan.configuration == LevelConfiguration::LargeHost
        && plan.workload == workload
        && bytes(plan) > plan.device_cache
}

/// Bytes of the checkpoints of the first process.
fn bytes(plan: &PointPlan) -> u64 {
    plan.sizes_of(0).iter().sum()
}

/// Bytes of the checkpoints of all processes.
fn bytes_of_all(plan: &PointPlan) -> u64 {
    (0..plan.processes).flat_map(|process| plan.sizes_of(process)).sum()
}

/// The comparisons that are nearest to the paper: those with the most bytes, in the least buffer that has room for
/// them.
fn nearest(mut all: Vec<Comparison<'_>>) -> Vec<Comparison<'_>> {
    let key = |plan: &PointPlan| (bytes_of_all(plan), u64::MAX - plan.host_cache);
    let nearest = all.iter().map(|one| key(one.plan)).max();
    all.retain(|one| Some(key(one.plan)) == nearest);
    all
}

/// A number over several intervals. Where there is one alone it is no mean and no maximum, which is said.
fn over_intervals(
    all: &[Comparison<'_>],
    of: fn(&[Comparison<'_>]) -> Option<OurNumber>,
) -> Option<OurNumber> {
    let mut ours = of(all)?;
    let interval = all.first()?.plan.interval_ms;
    if all.iter().all(|one| one.plan.interval_ms == interval) {
        ours.how += ", the only interval";
    }
    Some(ours)
}

/// The greatest ratio.
fn most(all: &[Comparison<'_>]) -> Option<OurNumber> {
    let most = all.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))?;
    mean(std::slice::from_ref(most))
}

/// The mean of the ratios.
fn mean(all: &[Comparison<'_>]) -> Option<OurNumber> {
    let plan = all.first()?.plan;
    let mut setting = size::show(bytes(plan));
    if plan.host_cache > bytes(plan) {
        setting += &format!(" in {}", size::show(plan.host_cache));
    }
    if plan.processes > 1 {
        setting = format!("{} processes of {setting}", plan.processes);
    }
    let ms = |seconds: f64| number(1e3 * seconds);
    let how = match all {
        [one] => {
            let (time, other) = (ms(one.time), ms(one.other));
            format!("{other} over {time} ms; {setting}, every {} ms", plan.interval_ms)
        }
        several => format!("{} settings; {setting}", several.len()),
    };
    let value = all.iter().map(Comparison::ratio).sum::<f64>() / all.len() as f64;
    Some(OurNumber { value, how, processes: plan.processes, bytes: bytes_of_all(plan) })
}
