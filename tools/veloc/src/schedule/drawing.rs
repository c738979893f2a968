//! The lines of a picture of the plan: which state is computed when, and how long states stay stored.
//! `python -m veloc.plot schedule` draws them.

use std::collections::HashMap;

use anyhow::{ensure, Result};
use indicatif::ProgressBar;
use schedule::schedule::Action;
use serde::Serialize;

use super::plan::{ScheduleFigures, ScheduleProblem};
use super::walk::{self, AnySchedule, Walker};
use crate::output;

/// Lines shorter than this share of the picture are left out: there may be millions.
const SHORTEST: f64 = 1.0 / 2000.0;

/// A line: the work done and the state at its beginning, and the work done and the state at its
/// end.
type DrawnLine = [f64; 4];

/// All lines. The field names are those of the JSON.
#[derive(Debug, Default, Serialize)]
pub(super) struct Lines {
    /// Steps are computed.
    forward: Vec<DrawnLine>,
    /// The adjoint goes back.
    adjoint: Vec<DrawnLine>,
    /// States stay stored.
    stored: Vec<DrawnLine>,
}

/// The lines drawn so far.
#[derive(Default)]
struct Page {
    lines: Lines,
    steps: f64,
    work: f64,
    /// The work done so far.
    now: f64,
    /// The end of the drawn line of the adjoint: the work done and the state.
    turned: Option<(f64, u64)>,
    /// For each row, where the state drawn last as stored begins and ends.
    rows: HashMap<i64, (f64, f64)>,
}

impl Page {
    /// The line between two places, unless it is too short to be seen.
    fn line(&self, from: (f64, u64), to: (f64, u64)) -> Option<DrawnLine> {
        let [x1, y1, x2, y2] = [from.0, from.1 as f64, to.0, to.1 as f64];
        let length = (x2 - x1).abs() / self.work + (y2 - y1).abs() / self.steps;
        (length >= SHORTEST).then_some([x1, y1, x2, y2])
    }

    /// Draws steps that are computed, in so much work.
    fn forward(&mut self, from: u64, to: u64, work: f64) {
        let begun = self.now;
        self.now += work;
        self.lines.forward.extend(self.line((begun, from), (self.now, to)));
    }

    /// Draws the adjoint up to a state. A line that is too short to be seen is drawn with the next
    /// one.
    fn adjoint(&mut self, fine: u64) {
        let here = (self.now, fine);
        let begun = *self.turned.get_or_insert(here);
        if let Some(line) = self.line(begun, here) {
            self.lines.adjoint.push(line);
            self.turned = Some(here);
        }
    }

    /// Draws a state that was stored until now. Millions of them in one row are one line.
    fn stored(&mut self, state: u64, since: f64) {
        let (from, to) = (since / self.work, self.now / self.work);
        let row = (state as f64 / self.steps / SHORTEST).round() as i64;
        let is_drawn =
            self.rows.get(&row).is_some_and(|(x1, x2)| x1 - from < SHORTEST && to - x2 < SHORTEST);
        if let Some(line) = self.line((since, state), (self.now, state)).filter(|_| !is_drawn) {
            self.lines.stored.push(line);
            self.rows.insert(row, (from, to));
        }
    }
}

pub(super) fn lines(problem: &ScheduleProblem, figures: &ScheduleFigures) -> Result<Lines> {
    let plan = &problem.plan;
    // A turn is a forward step and one of the adjoint.
    let work = (figures.forward_evals + u128::from(plan.steps)) as f64;
    let mut page = Page { steps: plan.steps as f64, work, ..Page::default() };
    ensure!(
        figures.forward_evals <= walk::LONGEST,
        "--out: there are {} forward steps to draw, of which {} are possible; without --out the plan is drawn \
         on the terminal, and --json prints its figures",
        figures.forward_evals,
        walk::LONGEST
    );
    let bar = output::count_bar("drawing", work as u64);
    walked(problem, &mut page, &bar);
    bar.finish_and_clear();
    Ok(page.lines)
}

/// Goes through all actions.
fn walked(problem: &ScheduleProblem, page: &mut Page, bar: &ProgressBar) {
    let mut walker = Walker::new(AnySchedule::new(problem), problem.plan.steps);
    // By slot, when it got its state and which; and the slots of each state, which may be in memory
    // and on disk.
    let mut since = HashMap::<u64, (f64, u64)>::new();
    let mut slots_of = HashMap::<u64, Vec<u64>>::new();
    for number in 0u64.. {
        if number % 65536 == 0 {
            bar.set_position(page.now as u64);
        }
        let action = walker.step();
        match action {
            Action::Advance { from, to } => page.forward(from, to, (to - from) as f64),
            Action::Takeshot { state, slot, .. } | Action::Record { step: state, slot } => {
                // A record is drawn as the state from which its step begins.
                let state = match action {
                    Action::Record { step, .. } => step - 1,
                    _ => state,
                };
                slots_of.entry(state).or_default().push(slot);
                if let Some((begun, state)) = since.insert(slot, (page.now, state)) {
                    page.stored(state, begun);
                }
                if matches!(action, Action::Record { .. }) {
                    page.forward(state, state + 1, 1.0);
                }
            }
            Action::Restore { .. } => {}
            Action::Firsturn { step, .. }
            | Action::Youturn { step, .. }
            | Action::Reverse { step, .. } => {
                if !matches!(action, Action::Reverse { .. }) {
                    page.forward(step - 1, step, 1.0);
                }
                page.now += 1.0;
                page.adjoint(step - 1);
                // States that are not needed any more end here.
                for slot in slots_of.remove(&(step - 1)).unwrap_or_default() {
                    let has_it = since.get(&slot).is_some_and(|(_, state)| *state == step - 1);
                    if let Some((begun, state)) = since.remove(&slot).filter(|_| has_it) {
                        page.stored(state, begun);
                    }
                }
            }
            Action::Terminate => return,
        }
    }
}
