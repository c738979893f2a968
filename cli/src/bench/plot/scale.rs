//! Axes: ranges, ticks, units and the texts of numbers.

use crate::draw::sizes;

/// What one axis shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub title: String,
    /// Where the axis begins and ends, in its own coordinate (see [`Axis::at`]).
    pub ends: (f64, f64),
    /// Places with a text, in the axis' coordinate.
    pub ticks: Vec<(f64, String)>,
    /// Further grid lines, in the axis' coordinate.
    pub light: Vec<f64>,
    logarithmic: bool,
}

/// How the values of an axis are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0 (or below).
    Linear,
    /// By powers of ten.
    Logarithmic,
    /// By powers of ten if the values differ by orders of magnitude.
    Fitting,
}

/// Values that differ by this factor do not fit on a linear axis.
pub const ORDERS: f64 = 20.0;

/// The room above the greatest value, as a share of the range: for a text from bottom to top.
const HEADROOM: f64 = 0.18;

impl Axis {
    /// An axis that all values fit on, with some room above them.
    pub fn values(title: String, values: &[f64], scale: Scale) -> Axis {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let greatest = finite().fold(0.0, f64::max);
        let least = finite().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let logarithmic = match scale {
            Scale::Linear => false,
            Scale::Logarithmic => greatest > 0.0,
            Scale::Fitting => greatest / least >= ORDERS,
        };
        if logarithmic {
            Axis::logarithmic(title, least, greatest)
        } else {
            Axis::linear(title, finite().fold(0.0, f64::min), greatest)
        }
    }

    /// An axis of sizes in bytes, with ticks at round numbers of KiB, MiB or GiB.
    pub fn sizes(title: &str, values: &[f64], scale: Scale) -> Axis {
        let mut axis = Axis::values(title.to_owned(), values, scale);
        axis.light.clear();
        let (low, high) = axis.ends;
        if axis.logarithmic {
            let doublings = |end: f64| end * std::f64::consts::LOG2_10;
            let (low, high) = (doublings(low), doublings(high));
            // So many doublings from tick to tick.
            let step = ((high - low) / 8.0).ceil().max(1.0);
            let powers = ((low / step).ceil() as i32..).map(|tick| f64::from(tick) * step);
            axis.ticks = powers
                .take_while(|power| *power <= high)
                .map(|power| (power.exp2().log10(), bytes(power.exp2() as u64)))
                .collect();
        } else {
            let unit = sizes::unit(high);
            axis.title = format!("{title} ({})", unit.name);
            let ticks = sizes::ticks(high / unit.bytes, 7.0).into_iter();
            axis.ticks = ticks.map(|tick| (tick * unit.bytes, tick.to_string())).collect();
        }
        axis
    }

    fn linear(title: String, least: f64, greatest: f64) -> Axis {
        let span = if greatest > least { greatest - least } else { 1.0 };
        let step = round_step(span / 7.0);
        let low = (least / step).floor() * step;
        let high = low.max(greatest) + span * HEADROOM;
        let first = (low / step).round() as i64;
        let decimals = (-step.log10()).ceil().max(0.0) as usize;
        let ticks = (first..)
            .map(|tick| tick as f64 * step)
            .take_while(|tick| *tick <= high)
            .map(|tick| (tick, format!("{tick:.decimals$}")))
            .collect();
        Axis { title, ends: (low, high), ticks, light: Vec::new(), logarithmic: false }
    }

    fn logarithmic(title: String, least: f64, greatest: f64) -> Axis {
        // The least bar must have a length.
        let low = round_below(least * 0.7).log10();
        let high = greatest.log10();
        let high = high + ((high - low) * HEADROOM).max(0.28);
        let few = high - low < 3.0;
        let mut ticks = Vec::new();
        let mut light = Vec::new();
        for decade in low.floor() as i32..=high.floor() as i32 {
            for digit in 1..10 {
                let at = f64::from(decade) + f64::from(digit).log10();
                if at < low - 1e-9 || at > high {
                    continue;
                }
                if digit == 1 || few && matches!(digit, 2 | 5) {
                    ticks.push((at, power_text(digit, decade)));
                } else {
                    light.push(at);
                }
            }
        }
        Axis { title, ends: (low, high), ticks, light, logarithmic: true }
    }

    /// An axis of names, each in the middle of a place of width 1.
    pub fn names(title: String, names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(at, name)| (at as f64 + 0.5, name.clone()));
        Axis {
            title,
            ends: (0.0, names.len().max(1) as f64),
            ticks: ticks.collect(),
            light: Vec::new(),
            logarithmic: false,
        }
    }

    /// An axis of numbers that double, as of processes: a tick at each value, with its number where
    /// there is room, and at powers of two first.
    pub fn doubling(title: String, values: &[f64]) -> Axis {
        /// Between two numbers, as a share of the axis.
        const APART: f64 = 0.04;
        let mut ticks: Vec<(f64, String)> =
            values.iter().map(|value| (value.log10(), String::new())).collect();
        let least = ticks.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
        let greatest = ticks.iter().map(|(at, _)| *at).fold(f64::NEG_INFINITY, f64::max);
        let ends = (least - 0.1, greatest + 0.1);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|at| values[*at].log2().fract() != 0.0);
        for at in order {
            let is_near = |(other, text): &(f64, String)| {
                !text.is_empty() && (other - ticks[at].0).abs() < APART * (ends.1 - ends.0)
            };
            if !ticks.iter().any(is_near) {
                ticks[at].1 = values[at].to_string();
            }
        }
        Axis { title, ends, ticks, light: Vec::new(), logarithmic: true }
    }

    /// An axis of whole numbers, `from` at its very beginning.
    pub fn counts(title: String, from: f64, to: f64) -> Axis {
        let step = round_step((to - from).max(1.0) / 8.0).max(1.0);
        let first = (from / step).ceil() as i64;
        let ticks = (first..)
            .map(|tick| tick as f64 * step)
            .take_while(|tick| *tick <= to)
            .map(|tick| (tick, tick.to_string()))
            .collect();
        Axis {
            title,
            ends: (from, to.max(from + 1.0)),
            ticks,
            light: Vec::new(),
            logarithmic: false,
        }
    }

    /// Where a value is, in the axis' coordinate. What has no logarithm is where the axis begins.
    pub fn at(&self, value: f64) -> f64 {
        let at = match self.logarithmic {
            true if value > 0.0 => value.log10(),
            true => self.ends.0,
            false => value,
        };
        at.clamp(self.ends.0, self.ends.1)
    }

    /// Where bars begin, in the axis' coordinate.
    pub fn base(&self) -> f64 {
        self.at(0.0)
    }

    /// The text of the tick at a place.
    pub fn text(&self, place: f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| (at - place).abs() < 1e-9);
        tick.map(|(_, text)| text.clone()).unwrap_or_default()
    }
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    /// How many of it are a second.
    pub per_second: f64,
}

/// The unit in which the greatest of these times (in seconds) reads best.
pub fn unit(seconds: &[f64]) -> Unit {
    let greatest = seconds.iter().copied().fold(0.0, f64::max);
    if greatest >= 1.0 || greatest <= 0.0 {
        Unit { name: "s", per_second: 1.0 }
    } else if greatest >= 1e-3 {
        Unit { name: "ms", per_second: 1e3 }
    } else {
        Unit { name: "µs", per_second: 1e6 }
    }
}

/// A size as `128 MiB`; exact, or with up to two decimals.
pub fn bytes(size: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| size >= *unit) else {
        return format!("{size} B");
    };
    let number = format!("{:.2}", size as f64 / unit as f64);
    format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A number in three digits, as `12.5`, `0.00125` or `1250`.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    format!("{value:.*}", (2 - magnitude).max(0) as usize)
}

/// A digit times a power of ten, as an axis has it.
fn power_text(digit: i32, decade: i32) -> String {
    match decade {
        ..-4 | 6.. => format!("{digit}e{decade}"),
        -4..0 => {
            let value = f64::from(digit) * 10f64.powi(decade);
            format!("{value:.*}", decade.unsigned_abs() as usize)
        }
        0..6 => format!("{:.0}", f64::from(digit) * 10f64.powi(decade)),
    }
}

/// The next of 1, 2, 5, 10, 20... from `least` on.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= least * 0.999);
    factor.unwrap_or(10.0) * decade
}

/// The last of 1, 2, 5, 10, 20... up to `greatest`.
fn round_below(greatest: f64) -> f64 {
    let decade = 10f64.powf(greatest.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * decade <= greatest);
    factor.unwrap_or(1.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_bears_zeros() {
        let axis = Axis::values(String::new(), &[0.0, 0.02, 30.0], Scale::Logarithmic);
        assert_eq!(axis.at(0.0), axis.ends.0);
        assert_eq!(axis.ends.0, -2.0, "0.01 is the round number below 0.014");
        assert!(axis.at(0.02) > axis.base(), "the least bar has a length");
        assert_eq!(axis.text(-2.0), "0.01");
        let nothing = Axis::values(String::new(), &[0.0, 0.0], Scale::Logarithmic);
        assert!(nothing.ends.0 < nothing.ends.1 && nothing.at(0.0) == 0.0);
    }

    #[test]
    fn values_of_one_magnitude_are_linear_from_0() {
        let axis = Axis::values(String::new(), &[3.0, 11.0], Scale::Fitting);
        assert_eq!(axis.base(), 0.0);
        assert!(axis.ends.1 > 11.0);
        let texts: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["0", "2", "4", "6", "8", "10", "12"]);
        let orders = Axis::values(String::new(), &[0.3, 11.0], Scale::Fitting);
        assert!(orders.base() < 0.0, "the logarithm of 0.2");
        let narrow = Axis::values(String::new(), &[3.0, 4.0], Scale::Logarithmic);
        assert!(narrow.ticks.len() >= 2, "{:?}", narrow.ticks);
    }

    #[test]
    fn numbers_of_processes_do_not_run_into_each_other() {
        let texts = |values: &[f64]| {
            let axis = Axis::doubling(String::new(), values);
            let texts = axis.ticks.iter().map(|(_, text)| text.clone());
            texts.collect::<Vec<_>>().join(",")
        };
        assert_eq!(texts(&[1.0, 2.0, 3.0, 4.0]), "1,2,3,4");
        assert_eq!(texts(&[1.0, 2.0, 30.0, 31.0, 32.0, 64.0]), "1,2,,,32,64");
    }

    #[test]
    fn a_linear_axis_shows_what_is_below_0() {
        let axis = Axis::values(String::new(), &[-1.2, 4.0], Scale::Linear);
        assert!(axis.ends.0 <= -1.2 && axis.base() == 0.0);
    }

    #[test]
    fn sizes_have_round_binary_ticks() {
        let texts = |values: &[f64]| {
            let axis = Axis::sizes("moved", values, Scale::Fitting);
            let texts: Vec<String> = axis.ticks.iter().map(|(_, text)| text.clone()).collect();
            (axis.title, texts.join(" "))
        };
        let mib = f64::from(1 << 20);
        assert_eq!(texts(&[16.0 * mib, 31.0 * mib]), ("moved (MiB)".into(), "0 8 16 24 32".into()));
        let (title, logarithmic) = texts(&[mib, 1000.0 * mib]);
        assert_eq!(
            (title.as_str(), logarithmic.as_str()),
            ("moved", "1 MiB 4 MiB 16 MiB 64 MiB 256 MiB 1 GiB")
        );
    }

    #[test]
    fn texts_of_numbers() {
        assert_eq!(bytes(128 << 20), "128 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(100), "100 B");
        assert_eq!(digits(12.54), "12.5");
        assert_eq!(digits(0.001254), "0.00125");
        assert_eq!(digits(1254.4), "1254");
        assert_eq!(unit(&[0.5, 0.002]).name, "ms");
    }
}
