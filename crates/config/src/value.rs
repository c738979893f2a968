//! From the text of one value to its type. A failure says what is allowed; the caller adds the
//! key, the value and where it stood.

use std::path::PathBuf;

use super::{Compress, GrowingSize, PrintErrors, ProofPolicy};
use policy::capture::{Capture, ROWS};

/// The values that are allowed, when another one was given.
pub(crate) type Allowed = String;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The largest size that is accepted, in bytes: the largest that a file or a mapping can have.
const LARGEST: u64 = i64::MAX as u64;

/// The most seconds of an interval: more than 30 years.
const LONGEST_INTERVAL: usize = 1_000_000_000;

/// A switch. Words for yes and no that are common, in any case. Upstream 1.8 knows `true` alone.
pub(crate) fn switch(text: &str) -> Result<bool, Allowed> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("true or false".into()),
    }
}

/// One of several words, in any case.
pub(crate) fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Allowed> {
    words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
        .map(|(_, value)| *value)
        .ok_or_else(|| words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "))
}

/// When errors of calls are printed.
pub(crate) fn print_errors(text: &str) -> Result<PrintErrors, Allowed> {
    match (text.eq_ignore_ascii_case("auto"), switch(text)) {
        (true, _) => Ok(PrintErrors::Auto),
        (_, Ok(true)) => Ok(PrintErrors::Always),
        (_, Ok(false)) => Ok(PrintErrors::Never),
        (_, Err(allowed)) => Err(format!("auto, {allowed}")),
    }
}

/// How host memory gets to the host buffer; `None`: the library chooses.
pub(crate) fn host_capture(text: &str) -> Result<Option<Capture>, Allowed> {
    let rows = ROWS.iter().filter(|row| row.number.is_some());
    let rows = rows.map(|row| (row.word, Some(row.way)));
    choice(text, &std::iter::once(("auto", None)).chain(rows).collect::<Vec<_>>())
}

/// Whether files have proofs.
pub(crate) fn proof(text: &str) -> Result<ProofPolicy, Allowed> {
    choice(
        text,
        &[
            ("check", ProofPolicy::Check),
            ("accept", ProofPolicy::Accept),
            ("off", ProofPolicy::Off),
        ],
    )
}

/// How files are compressed. Without a level Zstandard has its own default.
pub(crate) fn compress(text: &str) -> Result<Compress, Allowed> {
    let allowed = || "none, lz4, zstd, or zstd:N with N from 1 to 22".to_owned();
    let text = text.to_ascii_lowercase();
    match text.split_once(':') {
        None if text == "none" => Ok(Compress::None),
        None if text == "lz4" => Ok(Compress::Lz4),
        None if text == "zstd" => Ok(Compress::Zstd(3)),
        Some(("zstd", level)) => {
            let level = count_from(level, 1, 22).map_err(|_| allowed())?;
            Ok(Compress::Zstd(level as i32))
        }
        _ => Err(allowed()),
    }
}

/// A whole number from 0 to `most`.
pub(crate) fn count(text: &str, most: usize) -> Result<usize, Allowed> {
    // `usize::from_str` takes a leading plus, which is no way to write a count.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits && number <= most => Ok(number),
        _ => Err(format!("a whole number from 0 to {most}")),
    }
}

/// A whole number from `least` to `most`.
pub(crate) fn count_from(text: &str, least: usize, most: usize) -> Result<usize, Allowed> {
    let allowed = || format!("a whole number from {least} to {most}");
    count(text, most).ok().filter(|number| *number >= least).ok_or_else(allowed)
}

/// A name that can stand in a list and on a command line as it is.
pub(crate) fn label(text: &str) -> Result<String, Allowed> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    match (1..=64).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 letters, digits, dots, hyphens (not first) and underscores".into()),
    }
}

/// Seconds of an interval: `None` for -1, which is never.
pub(crate) fn interval(text: &str) -> Result<Option<u64>, Allowed> {
    if text == "-1" {
        return Ok(None);
    }
    count(text, LONGEST_INTERVAL)
        .map(|seconds| Some(seconds as u64))
        .map_err(|_| format!("a whole number of seconds from -1 (never) to {LONGEST_INTERVAL}"))
}

/// A path, as it stands. An empty path would name the current directory by accident. A path that a
/// shell would expand would be a directory of that very name, where nobody looks.
pub(crate) fn path(text: &str) -> Result<PathBuf, Allowed> {
    let quotes = ['"', '\''];
    if text.is_empty() {
        Err("a path".into())
    } else if text.starts_with('~') {
        Err("a path that is written out, as ~ does not stand for the home directory (./~ is a directory of that name)"
            .into())
    } else if text.starts_with(quotes) || text.ends_with(quotes) {
        Err("a path without quotes around it".into())
    } else {
        Ok(PathBuf::from(text))
    }
}

/// A size as [`size`] has it; none for `auto`.
pub(crate) fn size_or_auto(text: &str) -> Result<Option<u64>, Allowed> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    size(text).map(Some).map_err(|allowed| format!("auto, {allowed}"))
}

/// A size in bytes. A plain number counts GiB, as upstream's GPU prototype has it; with K, M, G or
/// T (and iB or B behind it, if one likes) it counts those powers of 1024, with B alone bytes. It
/// may have a fraction.
pub(crate) fn size(text: &str) -> Result<u64, Allowed> {
    let allowed = || {
        "a number of GiB such as 4 or 0.5, or a number with K, M, G, T or B such as 512M, \
         from 0 to less than 8388608T"
            .to_string()
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match suffix.trim_start().to_ascii_lowercase().as_str() {
        "" | "g" | "gb" | "gib" => GIB,
        "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => MIB,
        "t" | "tb" | "tib" => TIB,
        _ => return Err(allowed()),
    };
    let bytes = match number.split_once('.') {
        // Whole numbers are kept out of floating point, where the large ones lose digits.
        None => number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)),
        Some(_) => number.parse::<f64>().ok().map(|n| n * unit as f64).and_then(|n| {
            // A double below 2^63 converts exactly; the comparison also turns away infinity.
            (n < LARGEST as f64).then_some(n as u64)
        }),
    };
    bytes.filter(|bytes| *bytes <= LARGEST).ok_or_else(allowed)
}

/// A size as [`size`] has it, or two: `FIRST..MOST`. One alone does not grow.
pub(crate) fn growing_size(text: &str) -> Result<GrowingSize, Allowed> {
    let Some((first, most)) = text.split_once("..") else {
        let bytes =
            size(text).map_err(|allowed| format!("{allowed}; or two of them, as 4G..40G"))?;
        return Ok(GrowingSize { first: bytes, most: bytes });
    };
    if most.starts_with('.') {
        // Three points would be two and a fraction.
        return Err("two sizes with two points between them, as 4G..40G".into());
    }
    match (size(first.trim()), size(most.trim())) {
        (Ok(first), Ok(most)) if first <= most => Ok(GrowingSize { first, most }),
        (Ok(_), Ok(_)) => {
            Err("two sizes of which the second is not the smaller one, as 4G..40G".into())
        }
        (Err(allowed), _) | (_, Err(allowed)) => {
            Err(format!("two sizes, as 4G..40G, each of them {allowed}"))
        }
    }
}

/// A size in bytes, at least 1 and at most `most`.
pub(crate) fn size_up_to(text: &str, most: u64) -> Result<u64, Allowed> {
    size(text).ok().filter(|bytes| (1..=most).contains(bytes)).ok_or_else(|| {
        let most = match most {
            u64::MAX => String::new(),
            most => format!(" and at most {} MiB", most / MIB),
        };
        format!(
            "a size of more than 0{most}: a number of GiB such as 0.5, or a number with K, M, G, \
             T or B such as 64M"
        )
    })
}

/// A size as [`size_up_to`] has it, at least 1; none for `auto`.
pub(crate) fn chunk_or_auto(text: &str) -> Result<Option<u64>, Allowed> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    size_up_to(text, u64::MAX).map(Some).map_err(|allowed| format!("auto, or {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4", 4 * GIB),
            ("0.5", GIB / 2),
            (".5", GIB / 2),
            ("1.", GIB),
            ("4G", 4 * GIB),
            ("4g", 4 * GIB),
            ("4GiB", 4 * GIB),
            ("4 GB", 4 * GIB),
            ("512M", 512 * MIB),
            ("1.5K", 1536),
            ("2T", 2 * TIB),
            ("8388607T", 8_388_607 * TIB),
            ("4096B", 4096),
            ("007M", 7 * MIB),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn numbers_with_a_least_and_intervals() {
        assert_eq!(count_from("2", 2, 64), Ok(2));
        for (text, seconds) in [("0", Some(0)), ("60", Some(60)), ("-1", None)] {
            assert_eq!(interval(text), Ok(seconds), "{text}");
        }
        for text in ["", "-2", "-0", "+1", "1.5", "1s", "1000000001", "never"] {
            assert!(interval(text).is_err(), "{text}");
            assert!(count_from(text, 2, 64).is_err(), "{text}");
        }
        assert!(count_from("1", 2, 64).unwrap_err().contains("from 2 to 64"));
    }

    #[test]
    fn a_size_that_the_library_chooses() {
        assert_eq!(size_or_auto("Auto"), Ok(None));
        assert_eq!(size_or_auto("2K"), Ok(Some(2048)));
        assert!(size_or_auto("automatic").unwrap_err().starts_with("auto, a number of GiB"));
        assert_eq!(chunk_or_auto("AUTO"), Ok(None));
        assert_eq!(chunk_or_auto("2K"), Ok(Some(2048)));
        assert!(chunk_or_auto("0").unwrap_err().starts_with("auto, or a size of more than 0"));
    }

    /// Catches a range that is taken for one size, and one that would shrink.
    #[test]
    fn a_size_that_grows() {
        let range = |first, most| Ok(GrowingSize { first, most });
        assert_eq!(growing_size("4G"), range(4 * GIB, 4 * GIB));
        assert_eq!(growing_size("4G..40G"), range(4 * GIB, 40 * GIB));
        assert_eq!(growing_size("512M .. 4"), range(512 * MIB, 4 * GIB));
        assert_eq!(growing_size("0..0.5"), range(0, GIB / 2));
        assert_eq!(growing_size("1..1"), range(GIB, GIB));
        for text in ["..", "4G..", "..4G", "4G..40G..80G", "-1..4", "4G..40X"] {
            let allowed = growing_size(text).unwrap_err();
            assert!(allowed.starts_with("two sizes, as 4G..40G"), "{text}: {allowed}");
        }
        for text in ["4M...40M", "4G...5", "..."] {
            assert!(growing_size(text).unwrap_err().contains("two points"), "{text}");
        }
        assert!(growing_size("40G..4G").unwrap_err().contains("not the smaller one"));
        assert!(growing_size("lots").unwrap_err().contains("a number of GiB"));
    }

    #[test]
    fn what_is_no_size() {
        for text in [
            "",
            " ",
            "-1",
            "-0.5",
            "+1",
            "nan",
            "NaN",
            "inf",
            "infinity",
            "1e3",
            "1E",
            "G",
            ".",
            "..",
            "1.2.3",
            "1,5",
            "0x10",
            "4 G B",
            "4GiBs",
            "4iB",
            "four",
            "8388608T",
            "9999999999",
            "99999999999999999999999",
            "1.5e400",
            "9999999999.5",
            "٤",
        ] {
            assert!(size(text).is_err(), "{text:?}");
        }
        assert!(size(&"9".repeat(400)).is_err());
        assert!(size(&format!("{}.0", "9".repeat(400))).is_err(), "infinite as a double");
    }

    #[test]
    fn sizes_with_a_limit() {
        assert_eq!(size_up_to("1G", GIB), Ok(GIB));
        assert_eq!(size_up_to("1B", GIB), Ok(1));
        assert!(size_up_to("0", GIB).unwrap_err().contains("at most 1024 MiB"));
        assert!(size_up_to("1.1", GIB).is_err());
        assert!(size_up_to("0.0000000000001", u64::MAX).is_err(), "less than a byte");
    }

    #[test]
    fn paths_are_what_they_say() {
        for text in ["/s", "a b", "./~", "/home/~me", "it's"] {
            assert_eq!(path(text), Ok(PathBuf::from(text)), "{text}");
        }
        for (text, why) in [
            ("", "a path"),
            ("~", "written out"),
            ("~/scratch", "written out"),
            ("~me/scratch", "written out"),
            ("\"/local/scratch\"", "without quotes"),
            ("'/local/scratch'", "without quotes"),
            ("/local/scratch\"", "without quotes"),
        ] {
            assert!(path(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn switches_choices_and_counts() {
        for text in ["true", "TRUE", "yes", "on", "1"] {
            assert_eq!(switch(text), Ok(true), "{text}");
        }
        for text in ["false", "No", "off", "0"] {
            assert_eq!(switch(text), Ok(false), "{text}");
        }
        assert!(switch("").is_err());
        assert!(switch("2").is_err());

        let words = [("one", 1), ("two", 2)];
        assert_eq!(choice("two", &words), Ok(2));
        assert_eq!(choice("Two", &words), Ok(2));
        assert_eq!(choice("three", &words), Err("one, two".into()));

        assert_eq!(count("0", 256), Ok(0));
        assert_eq!(count("256", 256), Ok(256));
        for text in ["257", "-1", "+1", "", "1.5", "99999999999999999999999"] {
            assert!(count(text, 256).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(n in 0..=LARGEST) {
            prop_assert_eq!(size(&format!("{n}B")), Ok(n));
            prop_assert_eq!(size(&format!("{}M", n >> 20)), Ok(n >> 20 << 20));
        }

        #[test]
        fn fractions_are_near(n in 0.0..1e6f64) {
            let bytes = size(&format!("{n:.9}")).unwrap();
            prop_assert!((bytes as f64 / GIB as f64 - n).abs() < 1e-8);
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,12}") {
            if let Ok(bytes) = size(&text) {
                prop_assert!(bytes <= LARGEST);
            }
        }
    }
}
