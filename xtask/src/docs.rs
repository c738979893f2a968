//! The table of configuration keys in `docs/configuration.md`, made by the library.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{cargo, output, root};

/// What the table stands between.
const BEGIN: &str = "<!-- The table is made by `cargo xtask docs`. -->";
const END: &str = "<!-- End of the table. -->";

/// What stands around the table in a new file.
const NEW: &str = "\
# Configuration

The library reads one file of `key = value` lines, named at `VELOC_Init` or `VELOC_Init_single`. A
line that begins with `;` or `#`, or the rest of a line after ` ;`, is a comment; names of keys are
not sensitive to case. A variable `VELOC_<KEY>` in the environment overrides the file:
`VELOC_HOST_CACHE_SIZE=2G` stands before `host_cache_size = 32`. An unknown key is a warning with
its name, a value that does not parse an error with key and value.

Where `true` or `false` is asked for, `yes`, `on` and `1`, or `no`, `off` and `0`, will do as well; words
are not sensitive to case.

";

fn path() -> PathBuf {
    root().join("docs/configuration.md")
}

/// Writes the table, and the file around it if there is none.
pub fn update() -> Result<()> {
    let path = path();
    let text = if path.exists() { read(&path)? } else { format!("{NEW}{BEGIN}\n{END}\n") };
    write(&path, &put(&text, &table()?)?)
}

/// Fails if the file does not have the library's table.
pub fn check() -> Result<()> {
    let text = read(&path())?;
    if put(&text, &table()?)? == text {
        return Ok(());
    }
    Err(error("is not what src/config/keys.rs says; run cargo xtask docs"))
}

/// The table as the library says it. An example prints it, so that the other commands need not
/// build the library for themselves.
fn table() -> Result<String> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "xtask", "--example", "configuration"]);
    output(&mut command)
}

/// The text with `table` between the markers.
fn put(text: &str, table: &str) -> Result<String> {
    let (before, rest) =
        text.split_once(BEGIN).ok_or_else(|| error(&format!("has no line `{BEGIN}`")))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| error(&format!("has no line `{END}`")))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}

fn error(what: &str) -> Error {
    Error::new(format!("{} {what}", path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_what_is_between_the_markers() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let wanted = format!("a\n{BEGIN}\n\n| new |\n\n{END}\nb\n");
        assert_eq!(put(&text, "| new |\n").unwrap(), wanted);
        assert_eq!(put(&wanted, "| new |\n").unwrap(), wanted);
    }

    #[test]
    fn a_missing_marker_is_named() {
        assert!(put("a", "t").unwrap_err().to_string().contains(BEGIN));
        assert!(put(&format!("{BEGIN}\n"), "t").unwrap_err().to_string().contains(END));
    }
}
