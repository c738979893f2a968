//! One panel with its axes, and the marks that all kinds of panels are made of.

use anyhow::Result;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::results::Spread;

use super::scale::Axis;
use super::style::{Fill, Style, GRID, INK, LIGHT_GRID};

/// Where is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An axis as the drawing library wants it: in the axis' own coordinate.
#[derive(Clone)]
struct Coordinate(Axis);

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let (low, high) = self.0.ends;
        from + ((place - low) / (high - low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => self.0.light.clone(),
            false => self.0.ticks.iter().map(|(at, _)| *at).collect(),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.0.ends.0..self.0.ends.1
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format_ext(&self, place: &f64) -> String {
        self.0.text(*place)
    }
}

/// A place in an area, in units of the picture.
pub type Place = (i32, i32);

/// Height of the text of axes.
pub const TEXT: f64 = 13.0;
/// Height of small text inside of panels.
pub const SMALL: f64 = 11.0;

/// How text of a height, in units of the picture, is written.
pub fn text(height: f64, colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    // The backend divides by this.
    const BACKEND: f64 = 1.24;
    let mut style = TextStyle::from(("sans-serif", height * BACKEND).into_font());
    style.color = colour.to_backend_color();
    style.pos(Pos::new(h, v))
}

/// The width of a text, rather too great: which font a viewer of the SVG has is not known.
pub fn width(text: &str, height: f64) -> i32 {
    (text.chars().count() as f64 * height * 0.56).ceil() as i32
}

/// The height of the texts of an axis that is so wide: as much as leaves them apart.
fn fitting(axis: &Axis, across: i32) -> f64 {
    /// What cannot be read is of no use.
    const LEAST: f64 = 8.0;
    let widest = axis.ticks.iter().map(|(_, text)| width(text, TEXT)).max().unwrap_or(0);
    let named: Vec<&(f64, String)> = axis.ticks.iter().filter(|tick| !tick.1.is_empty()).collect();
    let apart = named.windows(2).map(|two| two[1].0 - two[0].0).fold(f64::INFINITY, f64::min);
    let room = apart / (axis.ends.1 - axis.ends.0) * f64::from(across);
    (TEXT * (room / f64::from(widest.max(1))).min(1.0)).max(LEAST)
}

/// A coordinate system and its axes.
pub struct Chart<'a> {
    /// The inside of the axes; its origin is their upper left corner.
    pub inside: Area<'a>,
    plane: DrawingArea<SVGBackend<'a>, Cartesian2d<Coordinate, Coordinate>>,
    area: Area<'a>,
    y: Axis,
    x: Axis,
}

impl<'a> Chart<'a> {
    /// Draws the axes.
    pub fn new(area: &Area<'a>, title: &str, x: Axis, y: Axis) -> Result<Chart<'a>> {
        Chart::with_foot(area, title, (x, y), 0)
    }

    /// The same with room of this height below the x axis, above its texts.
    pub fn with_foot(
        area: &Area<'a>,
        title: &str,
        (x, y): (Axis, Axis),
        foot: i32,
    ) -> Result<Chart<'a>> {
        let mut named = x.clone();
        if foot > 0 {
            named.ticks.iter_mut().for_each(|(_, text)| text.clear());
        }
        let mut chart = ChartBuilder::on(area)
            .margin_top(if title.is_empty() { 8 } else { 28 })
            .margin_right(14)
            .set_label_area_size(LabelAreaPosition::Left, 74)
            .set_label_area_size(LabelAreaPosition::Bottom, 50 + foot)
            .build_cartesian_2d(Coordinate(named), Coordinate(y.clone()))?;
        let (across, _) = chart.plotting_area().dim_in_pixel();
        let small = fitting(&x, across as i32);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(LIGHT_GRID)
            .axis_style(INK)
            .set_tick_mark_size(LabelAreaPosition::Bottom, if foot > 0 { 0 } else { 5 })
            .set_tick_mark_size(LabelAreaPosition::Left, 5)
            .label_style(text(TEXT, INK, HPos::Center, VPos::Center))
            .x_label_style(text(small, INK, HPos::Center, VPos::Center))
            .draw()?;
        let plane = chart.plotting_area().clone();
        let chart = Chart { inside: plane.strip_coord_spec(), plane, area: area.clone(), x, y };
        let (width, height) = chart.inside.dim_in_pixel();
        let (middle, height) = (width as i32 / 2, height as i32);
        let style = || text(TEXT + 1.0, INK, HPos::Center, VPos::Center);
        chart.write_around(title, (middle, -14), style())?;
        chart.write_around(&chart.x.title, (middle, height + 38 + foot), style())?;
        let upright = style().transform(FontTransform::Rotate270);
        chart.write_around(&chart.y.title, (-58, height / 2), upright)?;
        if foot > 0 {
            for (at, name) in &chart.x.ticks {
                let place = (chart.across(*at), height + 14 + foot);
                chart.write_around(name, place, text(small, INK, HPos::Center, VPos::Center))?;
            }
        }
        Ok(chart)
    }

    /// Writes outside of the axes, where `inside` cannot: the place counts from the upper left
    /// corner of the axes all the same.
    pub fn write_around(&self, what: &str, at: Place, style: TextStyle<'static>) -> Result<()> {
        let (from, to) = (self.area.get_base_pixel(), self.plane.get_base_pixel());
        write(&self.area, what, (to.0 - from.0 + at.0, to.1 - from.1 + at.1), style)
    }

    /// Where the axes' coordinates `x` and `y` are.
    fn place(&self, x: f64, y: f64) -> Place {
        let (base_x, base_y) = self.plane.get_base_pixel();
        let (x, y) = self.plane.map_coordinate(&(x, y));
        (x - base_x, y - base_y)
    }

    /// How far from the left a value of the x axis is.
    pub fn across(&self, value: f64) -> i32 {
        self.place(self.x.at(value), self.y.ends.0).0
    }

    /// How far from the top a value of the y axis is.
    pub fn down(&self, value: f64) -> i32 {
        self.place(self.x.ends.0, self.y.at(value)).1
    }

    /// Writes.
    pub fn write(&self, what: &str, at: Place, style: TextStyle<'static>) -> Result<()> {
        write(&self.inside, what, at, style)
    }

    /// A bar for what varies between repeats.
    pub fn whisker(&self, x: i32, spread: &Spread, half: i32, colour: RGBColor) -> Result<()> {
        let (top, bottom) = (self.down(spread.greatest), self.down(spread.least));
        if spread.greatest > spread.least {
            line(&self.inside, &[(x, top), (x, bottom)], colour, 1)?;
            line(&self.inside, &[(x - half, top), (x + half, top)], colour, 1)?;
            line(&self.inside, &[(x - half, bottom), (x + half, bottom)], colour, 1)?;
        }
        Ok(())
    }
}

/// Writes.
pub fn write(area: &Area, what: &str, at: Place, style: TextStyle<'static>) -> Result<()> {
    if !what.is_empty() {
        area.draw(&Text::new(what.to_owned(), at, style))?;
    }
    Ok(())
}

/// A line through places.
pub fn line(area: &Area, places: &[Place], colour: RGBColor, width: u32) -> Result<()> {
    area.draw(&PathElement::new(places.to_vec(), colour.stroke_width(width)))?;
    Ok(())
}

/// A dashed line through places.
pub fn dashes(area: &Area, places: &[Place], colour: RGBColor) -> Result<()> {
    for dash in dashed(places) {
        line(area, &dash, colour, 2)?;
    }
    Ok(())
}

/// The dashes of a line through places.
fn dashed(places: &[Place]) -> Vec<Vec<Place>> {
    const DASH: f64 = 6.0;
    const GAP: f64 = 4.0;
    let mut dashes: Vec<Vec<Place>> =
        places.first().map(|first| vec![*first]).into_iter().collect();
    // What is left of the dash, or of the gap, that one is in.
    let (mut inside, mut left) = (true, DASH);
    for ends in places.windows(2) {
        let (from, to) = (ends[0], ends[1]);
        let (x, y) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = x.hypot(y);
        let mut gone = 0.0;
        while length - gone > left {
            gone += left;
            let along = gone / length;
            let at = (from.0 + (x * along).round() as i32, from.1 + (y * along).round() as i32);
            match dashes.last_mut() {
                Some(dash) if inside => dash.push(at),
                _ => dashes.push(vec![at]),
            }
            inside = !inside;
            left = if inside { DASH } else { GAP };
        }
        left -= length - gone;
        if let (true, Some(dash)) = (inside, dashes.last_mut()) {
            dash.push(to);
        }
    }
    dashes
}

/// A rectangle between its upper left and its lower right corner.
pub fn block(area: &Area, from: Place, to: Place, style: Style) -> Result<()> {
    let inside = match style.fill {
        Fill::Solid => style.colour,
        Fill::Light => style.light(),
        Fill::Hatched | Fill::Empty => WHITE,
    };
    area.draw(&Rectangle::new([from, to], inside.filled()))?;
    if style.fill == Fill::Hatched {
        for ends in hatching(from, to) {
            line(area, &ends, style.colour, 1)?;
        }
    }
    if style.fill != Fill::Solid {
        area.draw(&Rectangle::new([from, to], style.colour.stroke_width(1)))?;
    }
    Ok(())
}

/// Parallel rising lines that fill a rectangle.
fn hatching(from: Place, to: Place) -> Vec<[Place; 2]> {
    const APART: usize = 5;
    let (width, height) = (to.0 - from.0, to.1 - from.1);
    // Each line is where x + y, from the upper left corner on, has one value.
    (0..=width + height)
        .step_by(APART)
        .map(|sum| {
            let (low, high) = (sum.min(height), sum.min(width));
            [(from.0 + sum - low, from.1 + low), (from.0 + high, from.1 + sum - high)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_follow_the_line_around_a_corner() {
        let dashes = dashed(&[(0, 0), (8, 0), (12, 0), (12, 9)]);
        let expected: [&[Place]; 3] =
            [&[(0, 0), (6, 0)], &[(10, 0), (12, 0), (12, 4)], &[(12, 8), (12, 9)]];
        assert_eq!(dashes, expected);
        assert!(dashed(&[]).is_empty());
    }

    #[test]
    fn many_texts_below_an_axis_are_smaller() {
        let axis = |count: usize| Axis::names(String::new(), &vec!["register".to_owned(); count]);
        assert_eq!(fitting(&axis(4), 500), TEXT);
        let height = fitting(&axis(10), 500);
        assert!(height < TEXT && width("register", height) <= 51, "{height}");
        assert_eq!(fitting(&axis(1), 10), TEXT, "it is alone");
    }

    #[test]
    fn hatching_stays_inside() {
        for [one, other] in hatching((10, 20), (42, 90)) {
            for (x, y) in [one, other] {
                assert!((10..=42).contains(&x) && (20..=90).contains(&y), "{x} {y}");
            }
            assert_eq!(one.0 + one.1, other.0 + other.1);
        }
    }
}
