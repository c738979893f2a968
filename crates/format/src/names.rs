//! The names of checkpoint files, `<name>-<rank>-<version>.dat`, and of files that are being written.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use errors::{Error, Result};

/// The most bytes that a checkpoint's name may have.
pub const LONGEST_NAME: usize = 127;

/// The end of every checkpoint file's name.
const SUFFIX: &str = ".dat";

/// Separates the final name of a temporary file from the numbers that make it unique.
const TEMPORARY: &str = ".tmp-";

/// The end of the name of the note beside a file-based checkpoint ([`routed_note`]).
const ROUTED: &str = ".routed";
/// The end of the name of a parity file.
const PARITY: &str = ".parity";

/// The parts of a checkpoint file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The checkpoint's name.
    pub name: &'a str,
    /// The rank (or the id given to `VELOC_Init_single`) of the process that wrote it.
    pub rank: u32,
    /// The version, 0 or more.
    pub version: i32,
}

/// The parts of a temporary file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temporary<'a> {
    /// The name that the file gets when it is complete.
    pub complete: &'a str,
    /// The process that writes it.
    pub pid: u32,
    /// Which of that process's temporary files it is.
    pub number: u64,
}

/// The kinds of files that a process has for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// Its checkpoint file.
    Data,
    /// The parities that it keeps of other processes' files; as content, without the header.
    Parity,
}

/// Whether `name` can name a checkpoint: one to [`LONGEST_NAME`] of `a-z A-Z 0-9 _ .`.
///
/// # Errors
/// The name is not valid; the message has the name and the rule.
pub fn validate_name(name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "checkpoint name {name:?} is not allowed; it takes 1 to {LONGEST_NAME} of the letters \
         a-z A-Z 0-9 _ ."
    )))
}

/// Whether a checkpoint can have this name and version.
///
/// # Errors
/// It cannot: the name is not valid, or the version is below 0.
pub fn validate(name: &str, version: i32) -> Result<()> {
    validate_name(name)?;
    if version < 0 {
        return Err(Error::invalid(format!("version {version} of \"{name}\" is below 0")));
    }
    Ok(())
}

/// The name of the file with one process's part of a checkpoint: not a path, and unique if `name` is valid
/// and `version` is 0 or more.
pub fn checkpoint_file(name: &str, rank: u32, version: i32) -> String {
    format!("{name}-{rank}-{version}{SUFFIX}")
}

/// Parses the name of a checkpoint file. `None` for anything that [`checkpoint_file`] would not return for a
/// valid name and version, such as `x-0-7.dat.partial`, `x-0-07.dat` and `x-0-99999999999.dat`.
pub fn parse(file_name: &str) -> Option<Parsed<'_>> {
    // A valid name has no hyphen, so there is only one way to split.
    let mut parts = file_name.strip_suffix(SUFFIX)?.split('-');
    let (name, rank, version) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_name(name) {
        return None;
    }
    Some(Parsed { name, rank: number(rank)?, version: number(version)? })
}

/// The name of the file with the parities that a process keeps of a checkpoint. Hidden, and [`parse`] does
/// not accept it.
pub fn parity_file(name: &str, rank: u32, version: i32) -> String {
    format!(".{}{PARITY}", checkpoint_file(name, rank, version))
}

/// Parses the name of a parity file. `None` for anything that [`parity_file`] would not return.
pub fn parse_parity(file_name: &str) -> Option<Parsed<'_>> {
    parse(file_name.strip_prefix('.')?.strip_suffix(PARITY)?)
}

/// The name of the file `complete` while it is being written. Hidden, and [`parse`] does not accept it; `pid`
/// and `number` keep writers apart.
pub fn temporary_file(complete: &str, pid: u32, number: u64) -> String {
    let mut name = String::with_capacity(complete.len() + 40);
    // Writing to a String cannot fail.
    let _ = write!(name, ".{complete}{TEMPORARY}{pid}-{number}");
    name
}

/// Parses the name of a temporary file, so that leftovers can be recognised and removed. `None` for anything
/// that [`temporary_file`] would not return.
pub fn parse_temporary(file_name: &str) -> Option<Temporary<'_>> {
    let (complete, numbers) = file_name.strip_prefix('.')?.rsplit_once(TEMPORARY)?;
    let (pid, count) = numbers.split_once('-')?;
    if complete.is_empty() || complete.contains('/') {
        return None;
    }
    Some(Temporary { complete, pid: number(pid)?, number: number(count)? })
}

/// The name of the note beside a file-based checkpoint (`VELOC_Route_file`), which has no header:
/// the note says where the file was routed from.
pub fn routed_note(checkpoint_file: &str) -> String {
    format!(".{checkpoint_file}{ROUTED}")
}

/// Parses the name of a note. `None` for anything that [`routed_note`] would not return for a checkpoint
/// file.
pub fn parse_routed_note(file_name: &str) -> Option<Parsed<'_>> {
    parse(file_name.strip_prefix('.')?.strip_suffix(ROUTED)?)
}

/// Whether [`validate_name`] accepts `name`.
pub(super) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// Parses a number as it is written: decimal digits, no sign, no leading zero.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let canonical =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_checkpoints() {
        for name in ["a", "wave_field.7", "A", "0", ".", "..", "_", &"x".repeat(LONGEST_NAME)] {
            assert!(validate_name(name).is_ok(), "{name:?}");
        }
        for name in ["", "a-b", "a/b", "a b", "ä", "a\n", "a\0", "*", &"x".repeat(128)] {
            let message = validate_name(name).unwrap_err().to_string();
            assert!(message.contains(&format!("{name:?}")), "{message}");
        }
    }

    #[test]
    fn files_of_checkpoints() {
        assert_eq!(checkpoint_file("wave.field", 3, 12), "wave.field-3-12.dat");
        assert_eq!(
            parse("wave.field-3-12.dat"),
            Some(Parsed { name: "wave.field", rank: 3, version: 12 })
        );
        assert_eq!(
            parse("x-4294967295-2147483647.dat"),
            Some(Parsed { name: "x", rank: u32::MAX, version: i32::MAX })
        );
    }

    #[test]
    fn files_that_are_no_checkpoints() {
        for file in [
            "",
            ".dat",
            "x",
            "x.dat",
            "x-0.dat",
            "x-0-7",
            "x-0-7.dat.partial",
            "x-0-7.data",
            "x-0-7.DAT",
            "x-0-99999999999.dat",
            "x-0-2147483648.dat",
            "x-4294967296-0.dat",
            "x-0-07.dat",
            "x-00-7.dat",
            "x-+0-7.dat",
            "x-0-+7.dat",
            "x-0--7.dat",
            "x--0-7.dat",
            "x-0-7 .dat",
            "x-0-.dat",
            "x--7.dat",
            "-0-7.dat",
            "x-y-0-7.dat",
            "x-agg-7.dat",
            "x-0-٧.dat",
            "ä-0-7.dat",
            ".x-0-7.dat.tmp-4-5",
        ] {
            assert_eq!(parse(file), None, "{file}");
        }
        assert_eq!(parse(&checkpoint_file(&"x".repeat(128), 0, 0)), None);
    }

    #[test]
    fn notes_of_routed_files() {
        assert_eq!(routed_note("x-0-7.dat"), ".x-0-7.dat.routed");
        assert_eq!(parse_routed_note(".x-0-7.dat.routed"), parse("x-0-7.dat"));
        for file in ["x-0-7.dat.routed", ".x-0-7.routed", ".x-0-7.dat", ".x-agg-7.dat.routed"] {
            assert_eq!(parse_routed_note(file), None, "{file}");
        }
    }

    #[test]
    fn temporary_files() {
        let name = temporary_file("x-0-7.dat", 4711, 2);
        assert_eq!(name, ".x-0-7.dat.tmp-4711-2");
        assert_eq!(
            parse_temporary(&name),
            Some(Temporary { complete: "x-0-7.dat", pid: 4711, number: 2 })
        );
        for file in [
            "",
            ".tmp-1-2",
            "..tmp-1-2x",
            "x-0-7.dat.tmp-1-2",
            ".x-0-7.dat",
            ".x.tmp-1",
            ".x.tmp-1-",
            ".x.tmp-01-2",
            ".x.tmp-1-2-3",
            ".a/x.tmp-1-2",
        ] {
            assert_eq!(parse_temporary(file), None, "{file}");
        }
        let longest = checkpoint_file(&"x".repeat(LONGEST_NAME), u32::MAX, i32::MAX);
        assert!(temporary_file(&longest, u32::MAX, u64::MAX).len() <= 255, "NAME_MAX");
    }

    #[test]
    fn parity_files() {
        let name = parity_file("wave.field", 3, 12);
        assert_eq!(name, ".wave.field-3-12.dat.parity");
        assert_eq!(parse_parity(&name), parse("wave.field-3-12.dat"));
        assert_eq!((parse(&name), parse_temporary(&name)), (None, None));
        for file in ["x-0-7.dat.parity", ".x-0-7.dat", ".x-0-7.parity", "..x-0-7.dat.parity.parity"]
        {
            assert_eq!(parse_parity(file), None, "{file}");
        }
    }

    proptest! {
        #[test]
        fn what_is_named_is_parsed(
            name in "[a-zA-Z0-9_.]{1,127}", rank in any::<u32>(), version in 0..=i32::MAX,
            pid in any::<u32>(), n in any::<u64>(),
        ) {
            let file = checkpoint_file(&name, rank, version);
            prop_assert_eq!(parse(&file), Some(Parsed { name: &name, rank, version }));
            prop_assert_eq!(parse_temporary(&file), None);

            let temporary = temporary_file(&file, pid, n);
            prop_assert_eq!(parse(&temporary), None);
            prop_assert_eq!(
                parse_temporary(&temporary),
                Some(Temporary { complete: &file, pid, number: n })
            );
        }

        #[test]
        fn what_is_parsed_is_named(file in "[x.]{0,2}-?[+0-9-]{0,5}-[0-9]{0,3}(\\.dat)?(\\.dat)?") {
            if let Some(parsed) = parse(&file) {
                prop_assert_eq!(
                    checkpoint_file(parsed.name, parsed.rank, parsed.version), file
                );
            }
        }

        #[test]
        fn any_text_is_answered(file in "\\PC{0,40}") {
            let _ = (parse(&file), parse_temporary(&file), validate_name(&file));
        }
    }
}
