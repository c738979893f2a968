//! A whole picture: heading, warnings, legend, and one or two panels below.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::bars::Bars;
use super::boxes::Boxes;
use super::chart::{block, dashes, line, text, width, write, Area, SMALL, TEXT};
use super::lines::Lines;
use super::stack::Stack;
use super::style::{Fill, Style, FAINT, INK, WARNING};

/// Width of a picture with one panel.
const ONE: u32 = 860;
/// Width of a picture with two.
const TWO: u32 = 1180;
/// Height of the panels.
const PANELS: u32 = 400;
/// Free space on the left and right.
const EDGE: i32 = 18;
/// Height of a line of text.
const ROW: i32 = 20;
/// Height of a line of text at the foot.
const FOOT_ROW: i32 = 16;
/// Between the facts of a line.
const BETWEEN: &str = "  ·  ";

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// What it says.
    pub label: String,
    /// The colour and filling.
    pub style: Style,
    /// What stands beside the text.
    pub mark: Mark,
}

/// The mark of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A filled rectangle.
    Area,
    /// A line.
    Line,
    /// A dashed black line.
    Dashes,
}

impl Key {
    /// That of something drawn as an area.
    pub fn area(label: impl Into<String>, style: Style) -> Key {
        Key { label: label.into(), style, mark: Mark::Area }
    }

    /// That of something drawn as a line.
    pub fn line(label: impl Into<String>, style: Style) -> Key {
        Key { label: label.into(), style, mark: Mark::Line }
    }

    /// That of a floor, or of another level to compare with.
    pub fn dashes(label: impl Into<String>) -> Key {
        Key { label: label.into(), style: Style::number(0), mark: Mark::Dashes }
    }
}

/// A panel.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // Each name says it.
pub enum Panel {
    Bars(Bars),
    Stack(Stack),
    Lines(Lines),
    Boxes(Boxes),
}

impl Panel {
    fn draw(&self, area: &Area) -> Result<()> {
        match self {
            Panel::Bars(bars) => bars.draw(area),
            Panel::Stack(stack) => stack.draw(area),
            Panel::Lines(lines) => lines.draw(area),
            Panel::Boxes(boxes) => boxes.draw(area),
        }
    }

    /// Height that it needs below its axis, beside that of its texts.
    fn foot(&self) -> i32 {
        match self {
            Panel::Stack(stack) => stack.foot(),
            Panel::Bars(_) | Panel::Lines(_) | Panel::Boxes(_) => 0,
        }
    }

    /// The entries for the legend.
    fn keys(&self) -> Vec<&Key> {
        match self {
            Panel::Bars(bars) => bars.series.iter().map(|(key, _)| key).collect(),
            Panel::Stack(stack) => stack.parts.iter().collect(),
            Panel::Lines(lines) => lines.series.iter().map(|(key, _)| key).collect(),
            Panel::Boxes(_) => Vec::new(),
        }
    }
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// Of what: the device, the workload and so on.
    pub facts: Vec<String>,
    /// Where and with what it was measured; stands at the foot.
    pub origin: Vec<String>,
    /// What must not be overlooked.
    pub warnings: Vec<String>,
    /// Entries of the legend beside those of the panels' series.
    pub keys: Vec<Key>,
    /// The panels, from left to right.
    pub panels: Vec<Panel>,
}

impl Sheet {
    /// The picture as SVG.
    pub fn draw(&self) -> Result<String> {
        let wide = if self.panels.len() > 1 { TWO } else { ONE };
        let room = wide as i32 - 2 * EDGE;
        let facts = in_rows(&self.facts, room, TEXT);
        let origin = in_rows(&self.origin, room, SMALL);
        let keys = self.legend();
        let widest = keys.iter().map(entry).max().unwrap_or(0);
        let one_row = keys.iter().map(entry).sum::<i32>() <= room;
        // Several rows stand in columns.
        let column = |key: &Key| if one_row { entry(key) } else { widest };
        let legend = rows(&keys, room, column);
        let lines = facts.len() + self.warnings.len() + legend.len();
        let head = 42 + lines as i32 * ROW + self.warnings.len() as i32 * 8 + 10;
        let mut svg = String::new();
        {
            let foot = origin.len() as i32 * FOOT_ROW + 6;
            let panels = PANELS as i32 + self.panels.iter().map(Panel::foot).max().unwrap_or(0);
            let size = (wide, (head + foot + panels) as u32);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            write(&root, &self.title, (EDGE, 22), text(18.0, INK, HPos::Left, VPos::Center))?;
            let mut y = 50;
            for fact in facts {
                write(&root, &fact, (EDGE, y), text(TEXT, FAINT, HPos::Left, VPos::Center))?;
                y += ROW;
            }
            for warning in &self.warnings {
                y += 4;
                let frame = [(EDGE, y - 12), (wide as i32 - EDGE, y + 12)];
                root.draw(&Rectangle::new(frame, WARNING.filled()))?;
                let style = text(TEXT + 1.0, WHITE, HPos::Center, VPos::Center);
                write(&root, warning, (wide as i32 / 2, y), style)?;
                y += ROW + 4;
            }
            for row in legend {
                let mut x = EDGE;
                for key in &row {
                    draw_key(&root, key, (x, y + 4))?;
                    x += column(key);
                }
                y += ROW;
            }
            let mut y = head + panels + FOOT_ROW / 2;
            for row in origin {
                write(&root, &row, (EDGE, y), text(SMALL, FAINT, HPos::Left, VPos::Center))?;
                y += FOOT_ROW;
            }
            let below = root.margin(head, 8 + foot, 0, 0);
            for (panel, area) in
                self.panels.iter().zip(below.split_evenly((1, self.panels.len().max(1))))
            {
                panel.draw(&area)?;
            }
            root.present()?;
        }
        Ok(svg)
    }

    /// All entries of the legend, each once.
    fn legend(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for key in self.panels.iter().flat_map(Panel::keys).chain(&self.keys) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }
}

/// The width of an entry.
fn entry(key: &Key) -> i32 {
    width(&key.label, TEXT) + 46
}

fn draw_key(area: &Area, key: &Key, (x, y): (i32, i32)) -> Result<()> {
    match key.mark {
        Mark::Area => block(area, (x + 4, y - 6), (x + 22, y + 6), key.style)?,
        Mark::Line if key.style.fill == Fill::Solid => {
            line(area, &[(x, y), (x + 22, y)], key.style.colour, 3)?;
        }
        Mark::Line => dashes(area, &[(x, y), (x + 22, y)], key.style.colour)?,
        Mark::Dashes => dashes(area, &[(x, y), (x + 22, y)], INK)?,
    }
    write(area, &key.label, (x + 29, y), text(TEXT, INK, HPos::Left, VPos::Center))
}

/// Facts of a height in lines that are no wider than `room`; one that is too long is broken.
fn in_rows(facts: &[String], room: i32, height: f64) -> Vec<String> {
    let broken: Vec<String> = facts
        .iter()
        .flat_map(|fact| {
            let words: Vec<&str> = fact.split(' ').collect();
            let lines = rows(&words, room, |word| width(word, height) + width(" ", height));
            lines.into_iter().map(|line| line.join(" ")).collect::<Vec<_>>()
        })
        .collect();
    let between = width(BETWEEN, height);
    let lines = rows(&broken, room, |fact| width(fact, height) + between);
    lines.into_iter().map(|line| line.join(BETWEEN)).collect()
}

/// Breaks items into rows that are no wider than `room`.
fn rows<T: Clone>(items: &[T], room: i32, width: impl Fn(&T) -> i32) -> Vec<Vec<T>> {
    let mut rows: Vec<Vec<T>> = Vec::new();
    let mut used = room;
    for item in items {
        let more = width(item);
        match rows.last_mut() {
            Some(row) if used + more <= room => row.push(item.clone()),
            _ => {
                rows.push(vec![item.clone()]);
                used = 0;
            }
        }
        used += more;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_full_as_they_can_be() {
        assert_eq!(
            rows(&[3, 4, 3, 9, 20, 1], 10, |item| *item),
            [vec![3, 4, 3], vec![9], vec![20], vec![1]]
        );
        assert!(rows(&[], 10, |item: &i32| *item).is_empty());
    }

    #[test]
    fn no_line_of_facts_is_wider_than_the_picture() {
        let facts = ["short".to_owned(), "a word and another ".repeat(20), "last".to_owned()];
        let lines = in_rows(&facts, 400, TEXT);
        assert!(lines.len() > 4 && lines.iter().all(|line| width(line, TEXT) <= 400), "{lines:?}");
        assert_eq!(lines[0], "short");
        assert!(lines.concat().ends_with("last"), "{lines:?}");
    }
}
