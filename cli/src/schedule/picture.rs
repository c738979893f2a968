//! The plan as a picture: which state is computed when, and how long states stay stored.

use std::collections::HashMap;

use anyhow::{ensure, Result};
use veloc_client::adjoint::estimate::MOST_STRETCHES;
use veloc_client::adjoint::schedule::{Action, Plan};
use veloc_client::adjoint::stretches::{go_through, Stretch, Visitor};

use super::plan::{Figures, Problem};
use super::walk::{self, Walker, Way};
use crate::draw::svg::{Anchor, Svg};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 600.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 70.0;

const INK: &str = "#1f2933";
const GRID: &str = "#d5dadf";
const STORED: &str = "#2f9e57";
const FORWARD: &str = "#2b6cb0";
const ADJOINT: &str = "#b42318";

/// How wide a digit is at the most, for its height.
const DIGIT: f64 = 0.6;

/// Lines shorter than this, in dots, are left out, and so are parts of a plan: there may be millions.
const SHORTEST: f64 = 0.4;

/// The page, and how far it is drawn.
struct Page {
    svg: Svg,
    steps: f64,
    work: f64,
    /// The work that is done.
    now: f64,
    /// Up to where the adjoint is drawn, when it had come there.
    turned: Option<(f64, u64)>,
    /// By half a dot of height, from where to where a state was drawn last as stored.
    rows: HashMap<i64, (f64, f64)>,
}

impl Page {
    fn across(&self, work: f64) -> f64 {
        LEFT + work / self.work * (WIDTH - LEFT - RIGHT)
    }

    fn down(&self, state: u64) -> f64 {
        HEIGHT - BOTTOM - state as f64 / self.steps * (HEIGHT - TOP - BOTTOM)
    }

    /// Draws a line, unless it is too short to be seen.
    fn line(&mut self, from: (f64, u64), to: (f64, u64), colour: &str, width: f64) -> bool {
        let [x1, x2] = [from, to].map(|(work, _)| self.across(work));
        let [y1, y2] = [from, to].map(|(_, state)| self.down(state));
        let is_seen = (x2 - x1).abs() + (y2 - y1).abs() >= SHORTEST;
        if is_seen {
            self.svg.line([x1, y1, x2, y2], colour, width, false);
        }
        is_seen
    }

    /// Steps are computed, in so much work.
    fn forward(&mut self, from: u64, to: u64, work: f64) {
        let begun = self.now;
        self.now += work;
        self.line((begun, from), (self.now, to), FORWARD, 1.0);
    }

    /// The adjoint has come to a state. What is too short to be seen is drawn with what follows.
    fn adjoint(&mut self, fine: u64) {
        let here = (self.now, fine);
        let begun = *self.turned.get_or_insert(here);
        if self.line(begun, here, ADJOINT, 1.5) {
            self.turned = Some(here);
        }
    }

    /// A state was stored until now. Millions of them in one row are one.
    fn stored(&mut self, state: u64, since: f64) {
        let (from, to) = (self.across(since), self.across(self.now));
        let row = (self.down(state) * 2.0).round() as i64;
        let is_drawn =
            self.rows.get(&row).is_some_and(|(x1, x2)| x1 - from < SHORTEST && to - x2 < SHORTEST);
        if !is_drawn && self.line((since, state), (self.now, state), STORED, 1.5) {
            self.rows.insert(row, (from, to));
        }
    }
}

/// Draws.
pub fn draw(problem: &Problem, figures: &Figures) -> Result<String> {
    let plan = &problem.plan;
    // A turn is a forward step and one of the adjoint.
    let work = (figures.forward_evals + u128::from(plan.steps)) as f64;
    let mut page = Page {
        svg: Svg::default(),
        steps: plan.steps as f64,
        work,
        now: 0.0,
        turned: None,
        rows: HashMap::new(),
    };
    frame(&mut page, plan, figures);
    if problem.is_plain() {
        let grain = SHORTEST / (WIDTH - LEFT - RIGHT) * work;
        let mut drawing = Drawing { page, grain, stored: Vec::new() };
        ensure!(
            go_through(plan, &mut drawing, MOST_STRETCHES),
            "--out: with {} slots more than {MOST_STRETCHES} stretches would be looked at; without --out the \
             plan is drawn on the terminal",
            plan.slots
        );
        return Ok(drawing.page.svg.finish(WIDTH, HEIGHT));
    }
    ensure!(
        figures.forward_evals <= walk::LONGEST,
        "--out: there are {} forward steps to draw, of which {} are possible with --online and with \
         --disk-slots; without --out the plan is drawn on the terminal",
        figures.forward_evals,
        walk::LONGEST
    );
    walked(problem, &mut page);
    Ok(page.svg.finish(WIDTH, HEIGHT))
}

/// Goes through the parts of a plan that can be seen.
struct Drawing {
    page: Page,
    /// Less work than this cannot be seen.
    grain: f64,
    /// The states that are stored, and since when.
    stored: Vec<(u64, f64)>,
}

impl Drawing {
    /// The adjoint has come to a state, which is not needed any more.
    fn comes_to(&mut self, fine: u64) {
        self.page.adjoint(fine);
        if let Some((state, since)) = self.stored.pop_if(|(state, _)| *state == fine) {
            self.page.stored(state, since);
        }
    }
}

impl Visitor for Drawing {
    fn enters(&mut self, stretch: &Stretch, _: Option<u64>) -> bool {
        let work = stretch.advances() as f64 + 2.0 * stretch.steps() as f64;
        if work > self.grain {
            return true;
        }
        self.page.forward(stretch.base, stretch.end, work);
        self.comes_to(stretch.low);
        false
    }

    fn advances(&mut self, from: u64, to: u64) {
        self.page.forward(from, to, (to - from) as f64);
    }

    fn stores(&mut self, state: u64) {
        self.stored.push((state, self.page.now));
    }

    fn turns(&mut self, step: u64, _: Option<u64>) {
        self.page.forward(step - 1, step, 1.0);
        self.page.now += 1.0;
        self.comes_to(step - 1);
    }
}

/// Goes through all actions.
fn walked(problem: &Problem, page: &mut Page) {
    let mut walker = Walker::new(Way::new(problem), problem.plan.steps);
    // By slot, when it got its state; and the slots that have a state, which may be in memory and on
    // disk.
    let mut since = HashMap::<u64, (f64, u64)>::new();
    let mut slots_of = HashMap::<u64, Vec<u64>>::new();
    loop {
        match walker.step() {
            Action::Advance { from, to } => page.forward(from, to, (to - from) as f64),
            Action::Takeshot { state, slot } => {
                slots_of.entry(state).or_default().push(slot);
                if let Some((begun, state)) = since.insert(slot, (page.now, state)) {
                    page.stored(state, begun);
                }
            }
            Action::Restore { .. } => {}
            Action::Firsturn { step, .. } | Action::Youturn { step, .. } => {
                page.forward(step - 1, step, 1.0);
                page.now += 1.0;
                page.adjoint(step - 1);
                // What is not needed any more ends here.
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
        // Up to there a number has all its digits.
        let work = if work < 1e15 { format!("{work:.0}") } else { format!("{work:.4e}") };
        // The last one stands at the edge of the page.
        let x = x.min(WIDTH - 4.0 - DIGIT * 11.0 * work.len() as f64 / 2.0);
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
