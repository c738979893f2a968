//! Distributions: a box from quartile to quartile, its median, and whiskers to the extremes.

use anyhow::Result;

use crate::bench::results::{quantile, Spread};

use super::chart::{block, line, Area, Chart};
use super::scale::Axis;
use super::style::{Fill, Style, INK};

/// One box for each place of the x axis.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// Above the panel.
    pub title: String,
    /// The boxes.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The values of each box, sorted.
    pub values: Vec<Vec<f64>>,
}

impl Boxes {
    /// Draws the panel.
    pub fn draw(&self, area: &Area) -> Result<()> {
        let chart = Chart::new(area, &self.title, self.x.clone(), self.y.clone())?;
        for (number, values) in self.values.iter().enumerate() {
            let Some(all) = Spread::of(values.clone()) else {
                continue;
            };
            let (left, right) = (chart.across(number as f64), chart.across(number as f64 + 1.0));
            let gap = ((right - left) / 5).max((right - left - 60) / 2);
            let (left, right) = (left + gap, right - gap);
            let quarter = |share| chart.down(quantile(values, share));
            chart.whisker((left + right) / 2, &all, (right - left) / 4, INK)?;
            let style = Style { fill: Fill::Light, ..Style::number(number) };
            block(&chart.inside, (left, quarter(0.75)), (right, quarter(0.25)), style)?;
            let median = quarter(0.5);
            line(&chart.inside, &[(left, median), (right, median)], INK, 2)?;
        }
        Ok(())
    }
}
