//! What the turns of several processes show.

use super::member::Turn;
use crate::bench::host::{Figure, Goal};
use crate::bench::results::quantile;

/// How long a process that gives no sign of life keeps its turn, and how often the others look, in
/// seconds: a process that stopped is passed over after the sum.
const STALL_AND_LOOK: f64 = 1.1;

/// The figures of some processes that wanted the turn all the time. `runs` has, for each repeat,
/// the turns of each process.
pub fn contest(processes: u32, runs: &[Vec<Vec<Turn>>]) -> Vec<Figure> {
    let figure = |what: &str, unit, of: fn(&[Vec<Turn>]) -> f64| {
        let values = runs.iter().map(|run| of(run)).collect();
        let name = if processes == 1 { "process" } else { "processes" };
        Figure::new(format!("{processes} {name}: {what}"), unit, values)
    };
    if processes == 1 {
        return vec![figure("a free turn, median", "us", |run| 1e6 * waiting(run, 0.5))];
    }
    vec![
        figure("turns that overlapped another", "", |run| overlaps(run) as f64)
            .with_goal(Goal::AtMost(0.0)),
        figure("later turns of one that came first, most", "", |run| overtaken(run) as f64)
            .with_goal(Goal::AtMost(1.0)),
        figure("fairness (Jain) of waiting", "", fairness).with_goal(Goal::AtLeast(0.95)),
        figure("waiting for a turn, median", "ms", |run| 1e3 * waiting(run, 0.5)),
        figure("from one turn's end to the next, median", "ms", |run| 1e3 * hand_over(run, 0.5)),
        figure("from one turn's end to the next, 95 %", "ms", |run| 1e3 * hand_over(run, 0.95)),
    ]
}

/// The figures of holders that died (`after_death`) or stopped: seconds until the next one went,
/// and whether the holder knew, afterwards, that its turn was over.
pub fn ends(after_death: &[f64], after_stop: &[f64], lost: &[f64]) -> [Figure; 3] {
    let ms = |seconds: &[f64]| seconds.iter().map(|s| 1e3 * s).collect();
    [
        Figure::new("the holder is killed: until the next one goes", "ms", ms(after_death))
            .with_goal(Goal::AtMost(100.0)),
        Figure::new("the holder is stopped: until the next one goes", "ms", ms(after_stop))
            .with_goal(Goal::AtMost(1e3 * STALL_AND_LOOK)),
        Figure::new("the holder that went on knew that it had lost its turn", "", lost.to_vec())
            .with_goal(Goal::AtLeast(1.0)),
    ]
}

fn by_start(run: &[Vec<Turn>]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = run.iter().flatten().copied().collect();
    turns.sort_by_key(|turn| turn.started);
    turns
}

/// Turns that started before an earlier one had ended.
fn overlaps(run: &[Vec<Turn>]) -> usize {
    let mut end = 0;
    let mut count = 0;
    for turn in by_start(run) {
        count += usize::from(turn.started < end);
        end = end.max(turn.ended);
    }
    count
}

/// The most turns that one process asked for later than another and had earlier: 0 if they are
/// served in the order in which they came, or 1 where two came within microseconds.
fn overtaken(run: &[Vec<Turn>]) -> usize {
    let mut most = 0;
    for (waiting, turns) in run.iter().enumerate() {
        for turn in turns {
            let meanwhile = |other: &Vec<Turn>| {
                other.iter().filter(|t| turn.asked < t.asked && t.started < turn.started).count()
            };
            let others = run.iter().enumerate().filter(|(index, _)| *index != waiting);
            most = others.map(|(_, other)| meanwhile(other)).fold(most, usize::max);
        }
    }
    most
}

/// Jain's index of the time that each process waited: 1 if all waited as long.
fn fairness(run: &[Vec<Turn>]) -> f64 {
    let waited: Vec<f64> = run.iter().map(|turns| turns.iter().map(waited).sum()).collect();
    let sum: f64 = waited.iter().sum();
    let squares: f64 = waited.iter().map(|x| x * x).sum();
    sum * sum / (waited.len() as f64 * squares)
}

fn waited(turn: &Turn) -> f64 {
    (turn.started - turn.asked) as f64 / 1e9
}

/// A quantile of the seconds that all waited for each turn.
fn waiting(run: &[Vec<Turn>], share: f64) -> f64 {
    let mut times: Vec<f64> = run.iter().flatten().map(waited).collect();
    times.sort_by(f64::total_cmp);
    quantile(&times, share)
}

/// A quantile of the seconds from the end of a turn to the start of the next, where somebody
/// waited.
fn hand_over(run: &[Vec<Turn>], share: f64) -> f64 {
    let turns = by_start(run);
    let mut times: Vec<f64> = turns
        .windows(2)
        .filter(|pair| pair[1].asked < pair[0].ended && pair[1].started >= pair[0].ended)
        .map(|pair| (pair[1].started - pair[0].ended) as f64 / 1e9)
        .collect();
    times.sort_by(f64::total_cmp);
    quantile(&times, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(asked: u64, started: u64, ended: u64) -> Turn {
        Turn { asked, started, ended }
    }

    #[test]
    fn overlapping_turns_are_counted() {
        let run = [vec![turn(0, 0, 10), turn(10, 20, 30)], vec![turn(0, 10, 20)]];
        assert_eq!(overlaps(&run), 0);
        let run = [vec![turn(0, 0, 10), turn(10, 12, 13)], vec![turn(0, 9, 20)]];
        assert_eq!(overlaps(&run), 2);
    }

    #[test]
    fn turns_out_of_order_are_counted() {
        let fair = [vec![turn(0, 0, 10), turn(10, 20, 30)], vec![turn(1, 10, 20)]];
        assert_eq!(overtaken(&fair), 0);
        // The second process waits while the first has two more turns, asked for later.
        let unfair =
            [vec![turn(0, 0, 10), turn(10, 10, 20), turn(20, 20, 30)], vec![turn(1, 30, 40)]];
        assert_eq!(overtaken(&unfair), 2);
    }

    #[test]
    fn fairness_is_1_of_equals_and_1_in_n_of_one_who_waits_alone() {
        let equal = [vec![turn(0, 5, 6)], vec![turn(1, 6, 7)]];
        assert!((fairness(&equal) - 1.0).abs() < 1e-12);
        let one = [vec![turn(0, 0, 1)], vec![turn(0, 1, 2)]];
        assert!((fairness(&one) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn handing_over_counts_only_where_somebody_waited() {
        let run =
            [vec![turn(0, 0, 1_000)], vec![turn(500, 3_000, 4_000), turn(9_000, 9_000, 9_001)]];
        assert!((hand_over(&run, 1.0) - 2e-6).abs() < 1e-12);
    }
}
