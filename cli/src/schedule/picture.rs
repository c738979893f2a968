//! The plan as a picture: which state is computed when, and how long states stay stored.

use std::collections::HashMap;

use anyhow::{ensure, Result};
use veloc_client::adjoint::schedule::{Action, Plan};

use super::plan::{Figures, Problem};
use super::walk::{self, Walker, Way};
use crate::draw::svg::{Anchor, Svg};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 600.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 70.0;

const INK: &str = "#1f2933";
const GRID: &str = "#d5dadf";
const STORED: &str = "#2f9e57";
const FORWARD: &str = "#2b6cb0";
const ADJOINT: &str = "#b42318";

/// Lines shorter than this, in dots, are left out: there may be millions.
const SHORTEST: f64 = 0.4;

/// Places on the page.
struct Page {
    svg: Svg,
    steps: f64,
    work: f64,
}

impl Page {
    fn across(&self, work: f64) -> f64 {
        LEFT + work / self.work * (WIDTH - LEFT - RIGHT)
    }

    fn down(&self, state: u64) -> f64 {
        HEIGHT - BOTTOM - state as f64 / self.steps * (HEIGHT - TOP - BOTTOM)
    }

    fn line(&mut self, from: (f64, u64), to: (f64, u64), colour: &str, width: f64) {
        let [x1, x2] = [from, to].map(|(work, _)| self.across(work));
        let [y1, y2] = [from, to].map(|(_, state)| self.down(state));
        if (x2 - x1).abs() + (y2 - y1).abs() >= SHORTEST {
            self.svg.line([x1, y1, x2, y2], colour, width, false);
        }
    }
}

/// Draws.
pub fn draw(problem: &Problem, figures: &Figures) -> Result<String> {
    let plan = &problem.plan;
    ensure!(
        figures.forward_evals <= walk::LONGEST,
        "--out: there are {} forward steps to draw, one line or more for each, of which {} are possible; \
         without --out the plan is drawn on the terminal",
        figures.forward_evals,
        walk::LONGEST
    );
    // A turn is a forward step and one of the adjoint.
    let work = (figures.forward_evals + u128::from(plan.steps)) as f64;
    let mut page = Page { svg: Svg::default(), steps: plan.steps as f64, work };
    frame(&mut page, plan, figures);
    let mut walker = Walker::new(Way::new(problem), plan.steps);
    // By slot, when it got its state; and the slots that have a state, which may be in memory and on
    // disk.
    let mut since = HashMap::<u64, (f64, u64)>::new();
    let mut slots_of = HashMap::<u64, Vec<u64>>::new();
    let (mut now, mut turned) = (0.0, (0.0, plan.steps));
    loop {
        let action = walker.step();
        match action {
            Action::Advance { from, to } => {
                let then = now + (to - from) as f64;
                page.line((now, from), (then, to), FORWARD, 1.0);
                now = then;
            }
            Action::Takeshot { state, slot } => {
                slots_of.entry(state).or_default().push(slot);
                if let Some(begun) = since.insert(slot, (now, state)) {
                    page.line(begun, (now, begun.1), STORED, 1.5);
                }
            }
            Action::Restore { .. } => {}
            Action::Firsturn { step, .. } | Action::Youturn { step, .. } => {
                page.line((now, step - 1), (now + 1.0, step), FORWARD, 1.0);
                now += 2.0;
                if matches!(action, Action::Youturn { .. }) {
                    page.line(turned, (now, step - 1), ADJOINT, 1.5);
                }
                turned = (now, step - 1);
                // What is not needed any more ends here.
                for slot in slots_of.remove(&(step - 1)).unwrap_or_default() {
                    let has_it = since.get(&slot).is_some_and(|(_, state)| *state == step - 1);
                    if let Some(begun) = since.remove(&slot).filter(|_| has_it) {
                        page.line(begun, (now, begun.1), STORED, 1.5);
                    }
                }
            }
            Action::Terminate => break,
        }
    }
    Ok(page.svg.finish(WIDTH, HEIGHT))
}

/// Axes, heading and legend.
fn frame(page: &mut Page, plan: &Plan, figures: &Figures) {
    let distance = match plan.resilience {
        u64::MAX => String::new(),
        distance => format!(", at most {distance} apart"),
    };
    let title = format!("{} steps, {} states stored{distance}", plan.steps, plan.slots);
    page.svg.text(LEFT, 24.0, 16.0, INK, Anchor::Start, &title);
    let sums = format!(
        "{} forward steps, {:.2} for each; a step is repeated {} times at the most",
        figures.forward_evals,
        figures.forward_evals as f64 / page.steps,
        figures.repetition
    );
    page.svg.text(LEFT, 44.0, 12.0, INK, Anchor::Start, &sums);
    for quarter in 0..=4 {
        let state = plan.steps / 4 * quarter + plan.steps % 4 * quarter / 4;
        let (y, work) = (page.down(state), page.work * quarter as f64 / 4.0);
        let x = page.across(work);
        page.svg.line([LEFT, y, WIDTH - RIGHT, y], GRID, 0.5, false);
        page.svg.line([x, TOP, x, HEIGHT - BOTTOM], GRID, 0.5, false);
        page.svg.text(LEFT - 6.0, y + 4.0, 11.0, INK, Anchor::End, &state.to_string());
        let work = format!("{work:.0}");
        page.svg.text(x, HEIGHT - BOTTOM + 16.0, 11.0, INK, Anchor::Middle, &work);
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let below = HEIGHT - BOTTOM + 34.0;
    page.svg.text(middle, below, 12.0, INK, Anchor::Middle, "steps, forward and adjoint");
    page.svg.text(8.0, TOP - 6.0, 12.0, INK, Anchor::Start, "state");
    let names = [(FORWARD, "forward"), (ADJOINT, "adjoint"), (STORED, "stored")];
    for (place, (colour, name)) in names.into_iter().enumerate() {
        let x = LEFT + 110.0 * place as f64;
        page.svg.line([x, HEIGHT - 14.0, x + 24.0, HEIGHT - 14.0], colour, 2.0, false);
        page.svg.text(x + 30.0, HEIGHT - 10.0, 12.0, INK, Anchor::Start, name);
    }
}
