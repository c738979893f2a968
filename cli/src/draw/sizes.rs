//! Axes of sizes: in the unit that reads best, with ticks at powers of two or at multiples of one.

/// A unit of sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: f64,
}

const UNITS: [Unit; 5] = [
    Unit { name: "TiB", bytes: 1_099_511_627_776.0 },
    Unit { name: "GiB", bytes: 1_073_741_824.0 },
    Unit { name: "MiB", bytes: 1_048_576.0 },
    Unit { name: "KiB", bytes: 1024.0 },
    Unit { name: "B", bytes: 1.0 },
];

/// The unit in which so many bytes are best said.
pub fn unit(bytes: f64) -> Unit {
    UNITS.into_iter().find(|unit| bytes >= unit.bytes).unwrap_or(UNITS[UNITS.len() - 1])
}

/// The step between ticks from 0 to `most`, at most `count` of them: a power of two, which may be
/// less than 1.
pub fn step(most: f64, count: f64) -> f64 {
    if most > 0.0 && most.is_finite() {
        (most / count).log2().ceil().exp2()
    } else {
        1.0
    }
}

/// Multiples of [`step`] from 0 to `most`, in the unit of `most`.
pub fn ticks(most: f64, count: f64) -> Vec<f64> {
    let step = step(most, count);
    (0..).map(|tick| f64::from(tick) * step).take_while(|tick| *tick <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_in_its_own_unit() {
        assert_eq!(unit(3e9).name, "GiB");
        assert_eq!(unit(1024.0 * 1024.0).name, "MiB");
        assert_eq!(unit(1024.0 * 1024.0 - 1.0).name, "KiB");
        assert_eq!(unit(3.0).name, "B");
        assert_eq!(unit(0.0).name, "B");
    }

    #[test]
    fn ticks_are_powers_of_two_apart() {
        assert_eq!(ticks(64.0, 5.0), [0.0, 16.0, 32.0, 48.0, 64.0]);
        assert_eq!(ticks(1.0, 5.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(ticks(100.0, 5.0), [0.0, 32.0, 64.0, 96.0]);
        assert_eq!(ticks(0.0, 5.0), [0.0]);
    }
}
