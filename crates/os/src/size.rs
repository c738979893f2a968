//! Sizes in messages.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(show(128 << 20), "128 MiB");
        assert_eq!(show(3 << 29), "1.5 GiB");
        assert_eq!(show(24_064 << 20), "23.5 GiB");
        assert_eq!(show(100), "100 B");
    }
}
