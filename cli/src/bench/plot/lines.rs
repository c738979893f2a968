//! Lines through points, with what varies between repeats.

use anyhow::Result;
use plotters::prelude::Circle;
use plotters::style::Color;

use crate::bench::results::Spread;

use super::chart::{dashes, line, Area, Chart};
use super::scale::Axis;
use super::sheet::{Key, Mark};
use super::style::{Fill, INK};

/// Lines over a common axis.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Above the panel.
    pub title: String,
    /// What the values follow.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The lines, each with its points from left to right.
    pub series: Vec<(Key, Vec<(f64, Spread)>)>,
    /// Whether each point has a mark: for few points.
    pub marks: bool,
}

impl Lines {
    /// Draws the panel.
    pub fn draw(&self, area: &Area) -> Result<()> {
        let chart = Chart::new(area, &self.title, self.x.clone(), self.y.clone())?;
        for (key, points) in &self.series {
            let place = |(x, y): &(f64, Spread)| (chart.across(*x), chart.down(y.median));
            let places: Vec<(i32, i32)> = points.iter().map(place).collect();
            match (key.mark, key.style.fill) {
                (Mark::Dashes, _) => dashes(&chart.inside, &places, INK)?,
                (_, Fill::Solid) => line(&chart.inside, &places, key.style.colour, 2)?,
                // There are more lines than colours.
                (_, _) => dashes(&chart.inside, &places, key.style.colour)?,
            }
            for (place, (_, spread)) in places.iter().zip(points).filter(|_| self.marks) {
                chart.whisker(place.0, spread, 4, key.style.colour)?;
                chart.inside.draw(&Circle::new(*place, 4, key.style.colour.filled()))?;
            }
        }
        Ok(())
    }
}
