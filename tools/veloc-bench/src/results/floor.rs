//! The floor: how long bare copies of the same bytes on the device take. All points that keep the
//! same bytes in as many processes share a floor, which is measured before each repeat of each of
//! them, so that noise that comes and goes meets the floor as it meets the approaches.

use serde::{Deserialize, Serialize};

use super::{quantile, Spread};
use crate::plan::PointPlan;

/// Bare copies of the bytes of some points: each checkpoint copied within the device and waited for,
/// by all processes at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Floor {
    /// Processes that copied at once.
    pub processes: u32,
    /// The sizes that were copied: see [`PointPlan::sizes`].
    pub sizes: Vec<Vec<u64>>,
    /// Time of a pass over all checkpoints: the median over the passes.
    pub median: f64,
    /// The fastest pass.
    pub least: f64,
    /// The slowest pass.
    pub greatest: f64,
    /// Time of each pass, the mean over the processes, in the order in which they were measured.
    pub passes: Vec<f64>,
    /// Time of each checkpoint's copy, the mean over the processes and the median over the passes.
    pub copies: Vec<f64>,
    /// Time of each checkpoint's copy in each pass, while the floor is measured.
    #[serde(skip)]
    samples: Vec<Vec<f64>>,
}

impl Floor {
    pub(crate) fn of<'a>(floors: &'a [Floor], plan: &PointPlan) -> Option<&'a Floor> {
        floors.iter().find(|floor| floor.is_of(plan.processes, &plan.sizes))
    }

    fn is_of(&self, processes: u32, sizes: &[Vec<u64>]) -> bool {
        self.processes == processes && self.sizes == sizes
    }

    /// Adds the bare copies of one repeat of a plan: for each process its passes, for each pass its
    /// copies.
    pub(crate) fn add(floors: &mut Vec<Floor>, plan: &PointPlan, measured: &[Vec<Vec<f64>>]) {
        let passes = measured.iter().map(Vec::len).min().unwrap_or(0);
        let of_pass = |pass: usize| measured.iter().map(move |process| &process[pass]);
        let samples: Vec<Vec<f64>> = (0..passes).map(|pass| means(of_pass(pass))).collect();
        let totals =
            (0..passes).map(|pass| of_pass(pass).flatten().sum::<f64>() / measured.len() as f64);
        // A repeat without a copy says nothing.
        let totals: Vec<f64> = totals.filter(|total| *total > 0.0).collect();
        if totals.is_empty() {
            return;
        }
        let (processes, sizes) = (plan.processes, &plan.sizes);
        let same = floors.iter().position(|known| known.is_of(processes, sizes));
        let at = same.unwrap_or_else(|| {
            floors.push(Floor { processes, sizes: sizes.clone(), ..Floor::default() });
            floors.len() - 1
        });
        let floor = &mut floors[at];
        floor.passes.extend(totals);
        floor.samples.extend(samples);
        if let Some(spread) = Spread::of(floor.passes.clone()) {
            (floor.median, floor.least, floor.greatest) =
                (spread.median, spread.least, spread.greatest);
        }
        floor.copies = medians(&floor.samples);
    }
}

/// The mean of each copy over those processes that made it.
fn means<'a>(processes: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let mut sums: Vec<(f64, u32)> = Vec::new();
    for process in processes {
        if process.len() > sums.len() {
            sums.resize(process.len(), (0.0, 0));
        }
        for (sum, time) in sums.iter_mut().zip(process) {
            *sum = (sum.0 + time, sum.1 + 1);
        }
    }
    sums.into_iter().map(|(sum, count)| sum / f64::from(count)).collect()
}

/// The median of each copy over the passes, all of which have made the same.
fn medians(passes: &[Vec<f64>]) -> Vec<f64> {
    let median = |copy: usize| {
        let mut times: Vec<f64> =
            passes.iter().filter_map(|pass| pass.get(copy).copied()).collect();
        times.sort_by(f64::total_cmp);
        quantile(&times, 0.5)
    };
    (0..passes.first().map_or(0, Vec::len)).map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ApproachName::{DirectPin, Ours};
    use crate::tests::synthetic::point;

    /// Catches a floor for each approach, and one that mixes different bytes.
    #[test]
    fn points_that_keep_the_same_bytes_share_a_floor() {
        let (ours, mut other) = (point(Ours, 5.0, 1.0).plan, point(DirectPin, 20.0, 1.0).plan);
        let mut floors = Vec::new();
        Floor::add(&mut floors, &ours, &[vec![vec![1.0, 2.0], vec![3.0, 4.0]]]);
        Floor::add(&mut floors, &other, &[vec![vec![2.0, 9.0]]]);
        assert_eq!(floors.len(), 1);
        let floor = Floor::of(&floors, &ours).unwrap();
        assert_eq!(floor.passes, [3.0, 7.0, 11.0]);
        assert_eq!((floor.least, floor.median, floor.greatest), (3.0, 7.0, 11.0));
        assert_eq!(floor.copies, [2.0, 4.0]);
        other.processes = 2;
        Floor::add(&mut floors, &other, &[vec![vec![1.0]], vec![vec![3.0, 8.0]]]);
        assert_eq!(floors.len(), 2);
        assert_eq!((floors[1].median, &floors[1].copies[..]), (6.0, &[2.0, 8.0][..]));
        other.sizes[0][0] += 4;
        assert_eq!(Floor::of(&floors, &other), None);
    }

    #[test]
    fn a_repeat_without_copies_adds_nothing() {
        let mut floors = Vec::new();
        for nothing in [vec![], vec![vec![]], vec![vec![vec![]]]] {
            Floor::add(&mut floors, &point(Ours, 5.0, 1.0).plan, &nothing);
        }
        assert_eq!(floors, []);
    }
}
