//! When the adjoint is stored: after a fixed number of its steps, or as soon as the expected loss in a crash
//! outweighs the write.
//!
//! A crash in the reverse sweep loses the work since the adjoint was last stored. Most of that is advances,
//! which are spread unevenly over the turns. With `w` for the work that could be done during a write and `m`
//! for that between two failures, a stretch of work `W` between two writes costs `w / W + W / (2 m)` for each
//! unit of work, which is least at `W = √(2 w m)` (Young, Commun. ACM 17 (1974)). The adjoint can only be
//! stored at a turn. Let `W` be the work since the last write at this turn, and `W'` at the next one: the
//! adjoint is stored now if `W W' >= 2 w m`, as it then costs less than storing it at the next turn.

use super::schedule::Done;

/// The amount of work after which the adjoint is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Threshold {
    /// The optimal work between two writes, in forward steps.
    pub work: f64,
    /// The cost of a step that is recorded and reversed, in forward steps.
    pub turn: f64,
}

impl Threshold {
    /// For a write that takes as long as `write` forward steps, and a mean time of `mtbf` forward steps
    /// between failures; a turn counts `turn` of them.
    pub(crate) fn new(write: f64, mtbf: f64, turn: f64) -> Threshold {
        Threshold { work: (2.0 * write * mtbf).sqrt(), turn }
    }
}

/// What is known about the stored adjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AdjointInterval {
    /// Without a threshold, the adjoint distance is used.
    pub threshold: Option<Threshold>,
    /// What had been done when the adjoint was last stored, or begun.
    pub since: Option<Done>,
}

impl AdjointInterval {
    /// Whether the adjoint is stored after the turn that brings it to `fine` of `steps`. `done` is what has
    /// been done so far, `ahead` the number of advances before the next turn.
    pub(crate) fn is_due(
        &mut self,
        every: Option<u64>,
        (fine, steps): (u64, u64),
        done: Done,
        ahead: u64,
    ) -> bool {
        let due = match self.threshold {
            Some(Threshold { work, turn }) => {
                // The states of the first sweep are stored already.
                let since = self.since.get_or_insert(Done { turns: done.turns - 1, ..done });
                let turns = (done.turns - since.turns) as f64;
                let lost = (done.advances - since.advances) as f64 + turns * turn;
                // Not after the first turn: there, the kind of the action says whether it is stored.
                fine + 1 < steps && lost * (lost + ahead as f64 + turn) >= work * work
            }
            None => every.is_some_and(|every| fine + 1 == steps || (steps - fine) % every == 0),
        };
        let due = due && fine > 0;
        if due {
            self.since = Some(done);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;
    use crate::schedule::{Action, Plan, Schedule};

    fn plan(steps: u64, slots: u64) -> Plan {
        Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
    }

    /// The work of each turn, with the advances before it, and whether the adjoint is stored then.
    fn turns(mut schedule: Schedule, turn: f64) -> Vec<(f64, bool)> {
        let (mut turns, mut work) = (Vec::new(), 0.0);
        while let Some(action) = Iterator::next(&mut schedule) {
            match action {
                Action::Advance { from, to } => work += (to - from) as f64,
                Action::Firsturn { check, .. } => turns.push((turn, check)),
                Action::Youturn { check, .. } => turns.push((work + turn, check)),
                _ => continue,
            }
            if !matches!(action, Action::Advance { .. }) {
                work = 0.0;
            }
        }
        turns
    }

    /// The expected time of stretches of work, each with a write except the last. A failure, one in `mtbf`
    /// steps on average, returns to the beginning of the stretch.
    fn expected(turns: &[(f64, bool)], write: f64, mtbf: f64) -> f64 {
        let stretch = |work: f64| mtbf * ((work / mtbf).exp() - 1.0);
        let (mut all, mut work) = (0.0, 0.0);
        for (more, stored) in turns {
            work += more;
            if *stored {
                all += stretch(work + write);
                work = 0.0;
            }
        }
        all + stretch(work)
    }

    /// The least expected time, by dynamic programming over the turns after which the adjoint is stored.
    fn least(turns: &[(f64, bool)], write: f64, mtbf: f64) -> f64 {
        let stretch = |work: f64| mtbf * ((work / mtbf).exp() - 1.0);
        let mut best = vec![0.0];
        for end in 1..=turns.len() {
            let write = if end == turns.len() { 0.0 } else { write };
            let (mut work, mut least) = (0.0, f64::INFINITY);
            for from in (0..end).rev() {
                work += turns[from].0;
                least = f64::min(least, best[from] + stretch(work + write));
            }
            best.push(least);
        }
        best[turns.len()]
    }

    /// Catches a threshold in steps of the adjoint, one that ignores the work ahead, and work that is not
    /// counted.
    #[test]
    fn nothing_would_be_much_better() {
        let turn = 3.0;
        for (steps, slots) in [(200, 5), (1000, 8), (1500, 40)] {
            for write in [0.5, 3.0, 30.0] {
                for mtbf in [300.0, 2000.0, 20_000.0] {
                    let mut schedule = Schedule::new(plan(steps, slots));
                    schedule.store_adjoint_by_work(Threshold::new(write, mtbf, turn));
                    let turns = turns(schedule, turn);
                    let excess = expected(&turns, write, mtbf) / least(&turns, write, mtbf);
                    let case = format!("{steps} steps, {slots} slots, {write}, {mtbf}");
                    // Near the end a write is of no use, as little is left to lose.
                    assert!((1.0 - 1e-9..1.022).contains(&excess), "{case}: {excess}");
                }
            }
        }
    }
}
