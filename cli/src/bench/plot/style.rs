//! Colours and fillings: the palette of Okabe and Ito, which the colour-blind can tell apart.

use plotters::style::RGBColor;

use crate::bench::plan::ApproachName;

/// What is written and framed.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// What matters less.
pub const FAINT: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Grid lines with a tick.
pub const GRID: RGBColor = RGBColor(0xD0, 0xD0, 0xD0);
/// Those without.
pub const LIGHT_GRID: RGBColor = RGBColor(0xEC, 0xEC, 0xEC);
/// What must not be overlooked.
pub const WARNING: RGBColor = RGBColor(0xB0, 0x20, 0x00);

/// The palette; its yellow comes last, as it is faint on white.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xF0, 0xE4, 0x42),
];

/// How an area is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// With the colour.
    Solid,
    /// With lines of it.
    Hatched,
    /// With a light tone of it.
    Light,
    /// Not at all.
    Empty,
}

/// The fillings, in the order in which they are used.
const FILLS: [Fill; 4] = [Fill::Solid, Fill::Hatched, Fill::Light, Fill::Empty];

/// How something is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// Its colour.
    pub colour: RGBColor,
    /// Its filling, if it has an area.
    pub fill: Fill,
}

impl Style {
    /// That of an approach, in every picture.
    pub fn of(approach: ApproachName) -> Style {
        Style::number(match approach {
            ApproachName::Ours => 0,
            ApproachName::DirectPin => 1,
            ApproachName::Uvm => 2,
            ApproachName::IncrementalMemset => 3,
            ApproachName::Ring => 4,
            ApproachName::UvmBudget => 5,
        })
    }

    /// The `number`th of many that are not alike.
    pub fn number(number: usize) -> Style {
        Style::pair(number % PALETTE.len(), number / PALETTE.len())
    }

    /// One for a thing of two properties: the colour shows the first, the filling the second.
    pub fn pair(first: usize, second: usize) -> Style {
        Style { colour: PALETTE[first % PALETTE.len()], fill: FILLS[second % FILLS.len()] }
    }

    /// One for what belongs to none of the others.
    pub fn rest() -> Style {
        Style { colour: FAINT, fill: Fill::Light }
    }

    /// The tone of [`Fill::Light`].
    pub fn light(&self) -> RGBColor {
        let mix = |part: u8| (u16::from(part) * 35 / 100 + 255 * 65 / 100) as u8;
        RGBColor(mix(self.colour.0), mix(self.colour.1), mix(self.colour.2))
    }
}
