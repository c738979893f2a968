//! Numbers as ranges: `0-3,7`.

use std::collections::BTreeSet;

/// The most ranges that are written; with more, the number of numbers follows.
const MOST: usize = 8;

/// A set of numbers as text: `0-3,7`, and with very many gaps `0,2,4,6,8,10,12,14,... (500)`.
pub(crate) fn ranges<'a>(numbers: impl IntoIterator<Item = &'a u32>) -> String {
    let numbers: BTreeSet<u32> = numbers.into_iter().copied().collect();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in &numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let shown: Vec<String> = ranges.iter().take(MOST).map(text).collect();
    match ranges.len() > MOST {
        true => format!("{},... ({})", shown.join(","), numbers.len()),
        false => shown.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        for (numbers, text) in [
            (vec![], ""),
            (vec![5], "5"),
            (vec![3, 1, 2, 0], "0-3"),
            (vec![0, 1, 3, 63, 62], "0-1,3,62-63"),
            (vec![u32::MAX, u32::MAX - 1, 0], "0,4294967294-4294967295"),
            ((0..500).map(|i| 2 * i).collect(), "0,2,4,6,8,10,12,14,... (500)"),
        ] {
            assert_eq!(ranges(&numbers), text);
        }
    }
}
