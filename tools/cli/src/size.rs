//! Sizes on the command line and in tables.

use anyhow::{bail, Context, Result};

pub(crate) use os::size::show;

const UNITS: [(char, u32); 5] = [('B', 0), ('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Reads a number of bytes, or a number with `B`, `K`, `M`, `G` or `T` (powers of 1024).
pub(crate) fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    let last = text.chars().last().context("a size is missing")?.to_ascii_uppercase();
    let (number, shift) = match UNITS.iter().find(|(unit, _)| *unit == last) {
        Some((_, shift)) => (&text[..text.len() - 1], *shift),
        None => (text, 0),
    };
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .with_context(|| {
            format!("{text}: not a size; wanted is a number from 0 on, or one with B, K, M, G or T")
        })?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes > (1u64 << 60) as f64 {
        bail!("{text}: at most 2^60 bytes are possible");
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        assert_eq!(parse("128M").unwrap(), 128 << 20);
        assert_eq!(parse("1.5g").unwrap(), 3 << 29);
        assert_eq!(parse("77").unwrap(), 77);
        for wrong in ["", "x", "-1M", "1Q", "nanG", "1e30T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
