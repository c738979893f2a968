//! Grouped bars, with what varies between repeats.

use anyhow::Result;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{FontTransform, RGBColor, WHITE};

use crate::bench::results::Spread;
use crate::bench::table::absent::Absent;

use super::chart::{block, dashes, line, text, width, Area, Chart, SMALL};
use super::scale::Axis;
use super::sheet::Key;
use super::style::{Fill, Style, FAINT, INK, WARNING};

/// The widest that a bar is.
pub const WIDEST: i32 = 90;

/// Bars in groups: one group for each place of the x axis, one bar in each for each series.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above the panel.
    pub title: String,
    /// The groups.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The series, each with a bar for each group.
    pub series: Vec<(Key, Vec<Bar>)>,
    /// What no bar can be shorter than, by group.
    pub floors: Vec<Option<f64>>,
    /// A level to compare all with.
    pub level: Option<f64>,
}

/// A bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height; none if nothing was measured.
    pub spread: Option<Spread>,
    /// What stands above it.
    pub note: String,
    /// Why it has none.
    pub absent: Option<Absent>,
}

impl Bars {
    /// Draws the panel.
    pub fn draw(&self, area: &Area) -> Result<()> {
        let chart = Chart::new(area, &self.title, self.x.clone(), self.y.clone())?;
        for group in 0..self.floors.len() {
            let (left, right) = (chart.across(group as f64), chart.across(group as f64 + 1.0));
            let most = self.series.len() as i32 * WIDEST;
            let gap = ((right - left) / 10).max((right - left - most) / 2);
            let (left, right) = (left + gap, right - gap);
            let slot = |number: usize| {
                left + (right - left) * number as i32 / self.series.len().max(1) as i32
            };
            for (number, (key, bars)) in self.series.iter().enumerate() {
                if let Some(bar) = bars.get(group) {
                    self.bar(&chart, bar, key.style, (slot(number), slot(number + 1)))?;
                    if let Some(absent) = bar.absent {
                        // Above the floor's line.
                        let bottom = chart.down(self.floors[group].unwrap_or(0.0)) - 5;
                        say(&chart, absent, ((slot(number) + slot(number + 1)) / 2, bottom))?;
                    }
                }
            }
            if let Some(floor) = self.floors[group] {
                let y = chart.down(floor);
                let over = gap.min(WIDEST) / 2;
                dashes(&chart.inside, &[(left - over, y), (right + over, y)], INK)?;
            }
        }
        if let Some(level) = self.level {
            let (left, right) = (chart.across(0.0), chart.across(self.floors.len() as f64));
            let y = chart.down(level);
            dashes(&chart.inside, &[(left, y), (right, y)], INK)?;
        }
        if self.y.ends.0 < self.y.base() {
            let zero = chart.down(0.0);
            let (left, right) = (chart.across(0.0), chart.across(self.floors.len() as f64));
            line(&chart.inside, &[(left, zero), (right, zero)], INK, 1)?;
        }
        Ok(())
    }

    fn bar(&self, chart: &Chart, bar: &Bar, style: Style, slot: (i32, i32)) -> Result<()> {
        let (left, right) = (slot.0 + 1, slot.1 - 1);
        let middle = (left + right) / 2;
        let base = chart.down(0.0);
        let Some(spread) = &bar.spread else {
            return Ok(());
        };
        let end = chart.down(spread.median);
        block(&chart.inside, (left, end.min(base)), (right, end.max(base)), style)?;
        chart.whisker(middle, spread, ((right - left) / 5).clamp(2, 6), INK)?;
        let above = chart.down(spread.greatest).min(base) - 4;
        let wide = width(&bar.note, SMALL);
        if wide <= right - left {
            // No line of the grid runs through it.
            let paper = Style { colour: WHITE, fill: Fill::Solid };
            let (from, to) = (middle - wide / 2, middle + wide / 2);
            block(&chart.inside, (from, above - SMALL as i32), (to, above), paper)?;
            chart.write(&bar.note, (middle, above), text(SMALL, INK, HPos::Center, VPos::Bottom))
        } else {
            upright(chart, &bar.note, (middle, above - 3), INK)
        }
    }
}

/// Says in the place of a bar why there is none.
pub fn say(chart: &Chart, absent: Absent, at: (i32, i32)) -> Result<()> {
    let colour = match absent {
        Absent::Failed => WARNING,
        Absent::NotMeasured => FAINT,
    };
    upright(chart, absent.text(), at, colour)
}

/// Writes from bottom to top.
pub fn upright(chart: &Chart, what: &str, at: (i32, i32), colour: RGBColor) -> Result<()> {
    let style = text(SMALL, colour, HPos::Left, VPos::Center);
    chart.write(what, at, style.transform(FontTransform::Rotate270))
}
