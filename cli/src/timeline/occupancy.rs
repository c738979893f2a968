//! The lines below the lanes: how much of the caches is mapped, touched, registered and taken.

use super::job::Process;

/// A line: the counter's name, its colour and its legend.
pub const LINES: [(&str, &str, &str); 5] = [
    ("device mapped", "#d9a400", "device cache mapped"),
    ("device used", "#2b6cb0", "device cache taken"),
    ("host touched", "#e0701a", "host buffer touched"),
    ("host registered", "#b42318", "host buffer registered"),
    ("host used", "#2f9e57", "host buffer taken"),
];

/// The corners of a line between `from` and `to` that keeps each value until the next: time and
/// bytes. Before the first value it is 0.
pub fn steps(values: &[(f64, f64)], from: f64, to: f64) -> Vec<(f64, f64)> {
    let before = values.iter().take_while(|(at, _)| *at <= from).last();
    let mut value = before.map_or(0.0, |(_, bytes)| *bytes);
    let mut corners = vec![(from, value)];
    for &(at, bytes) in values.iter().filter(|(at, _)| *at > from && *at <= to) {
        corners.push((at, value));
        corners.push((at, bytes));
        value = bytes;
    }
    corners.push((to, value));
    corners
}

/// The largest value of all lines between `from` and `to`, in bytes.
pub fn most(process: &Process, from: f64, to: f64) -> f64 {
    let lines = LINES.iter().filter_map(|(name, _, _)| process.counters.get(*name));
    lines.flat_map(|values| steps(values, from, to)).map(|(_, bytes)| bytes).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_value_until_the_next() {
        let values = [(1.0, 10.0), (2.0, 20.0), (9.0, 5.0)];
        assert_eq!(
            steps(&values, 0.0, 3.0),
            [(0.0, 0.0), (1.0, 0.0), (1.0, 10.0), (2.0, 10.0), (2.0, 20.0), (3.0, 20.0)]
        );
        assert_eq!(steps(&values, 3.0, 5.0), [(3.0, 20.0), (5.0, 20.0)], "within the window");
    }
}
