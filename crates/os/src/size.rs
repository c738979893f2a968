//! Sizes in messages, and on the command lines of the programs.

use errors::{Error, Result};

/// A size for people: `128 MiB`, `1.5 GiB`.
pub fn show(bytes: u64) -> String {
    let unit = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes >> shift > 0);
    match unit {
        None => format!("{bytes} B"),
        Some((shift, name)) => {
            let number = bytes as f64 / (1u64 << shift) as f64;
            let digits = usize::from(number < 100.0 && number.fract() > 0.005);
            format!("{number:.digits$} {name}")
        }
    }
}

const UNITS: [(char, u32); 5] = [('B', 0), ('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Reads a number of bytes, or a number with `B`, `K`, `M`, `G` or `T` (powers of 1024).
pub fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    let last = text.chars().last().ok_or_else(|| Error::invalid("a size is missing"))?;
    let (number, shift) = match UNITS.iter().find(|(unit, _)| *unit == last.to_ascii_uppercase()) {
        Some((_, shift)) => (&text[..text.len() - 1], *shift),
        None => (text, 0),
    };
    let number = number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let wanted = "wanted is a number from 0 on, or one with B, K, M, G or T";
    let number = number.ok_or_else(|| Error::invalid(format!("{text}: not a size; {wanted}")))?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes > (1u64 << 60) as f64 {
        return Err(Error::invalid(format!("{text}: at most 2^60 bytes are possible")));
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

    #[test]
    fn sizes_are_short() {
        assert_eq!(show(128 << 20), "128 MiB");
        assert_eq!(show(3 << 29), "1.5 GiB");
        assert_eq!(show(24_064 << 20), "23.5 GiB");
        assert_eq!(show(100), "100 B");
    }
}
