//! Bars made of parts, in groups: what a sum is made of, one beside the other.

use anyhow::Result;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::FontTransform;

use crate::bench::table::absent::Absent;

use super::bars::{say, upright, WIDEST};
use super::chart::{block, text, width, Area, Chart, SMALL};
use super::scale::Axis;
use super::sheet::Key;
use super::style::INK;

/// One group for each place of the x axis.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Above the panel.
    pub title: String,
    /// The groups.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The parts, from the bottom up.
    pub parts: Vec<Key>,
    /// The bars of each group.
    pub groups: Vec<Vec<Column>>,
}

/// A bar.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Stands below it.
    pub name: String,
    /// The height of each part.
    pub heights: Vec<f64>,
    /// Stands above it.
    pub note: String,
    /// Why it has no parts.
    pub absent: Option<Absent>,
}

impl Stack {
    /// The height of the names below the bars.
    pub fn foot(&self) -> i32 {
        let columns = self.groups.iter().flatten();
        columns.map(|column| width(&column.name, SMALL) + 8).max().unwrap_or(0)
    }

    /// Draws the panel.
    pub fn draw(&self, area: &Area) -> Result<()> {
        let axes = (self.x.clone(), self.y.clone());
        let chart = Chart::with_foot(area, &self.title, axes, self.foot())?;
        for ((at, _), columns) in self.x.ticks.iter().zip(&self.groups) {
            let (left, right) = (chart.across(at - 0.5), chart.across(at + 0.5));
            let count = columns.len().max(1) as i32;
            let gap = ((right - left) / 10).max((right - left - count * WIDEST) / 2);
            let slot = |number: i32| left + gap + (right - left - 2 * gap) * number / count;
            for (number, column) in (0..).zip(columns) {
                self.column(&chart, column, (slot(number) + 1, slot(number + 1) - 1))?;
            }
        }
        Ok(())
    }

    fn column(&self, chart: &Chart, column: &Column, (left, right): (i32, i32)) -> Result<()> {
        let (middle, base) = ((left + right) / 2, chart.down(0.0));
        let style = text(SMALL, INK, HPos::Right, VPos::Center);
        let style = style.transform(FontTransform::Rotate270);
        chart.write_around(&column.name, (middle, base + 6), style)?;
        if let Some(absent) = column.absent {
            return say(chart, absent, (middle, base - 5));
        }
        let mut sum = 0.0;
        for (key, height) in self.parts.iter().zip(&column.heights) {
            let (bottom, top) = (chart.down(sum), chart.down(sum + height));
            sum += height;
            if top < bottom {
                block(&chart.inside, (left, top), (right, bottom), key.style)?;
            }
        }
        let above = chart.down(sum) - 4;
        if width(&column.note, SMALL) <= right - left {
            let style = text(SMALL, INK, HPos::Center, VPos::Bottom);
            chart.write(&column.note, (middle, above), style)
        } else {
            upright(chart, &column.note, (middle, above), INK)
        }
    }
}
