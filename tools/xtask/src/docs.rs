//! Files made from the sources: the tables of configuration keys in `docs/configuration.md`, and
//! the headers.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{cargo, output, root, run};

/// The lines between which the tables stand.
const BEGIN: &str = "<!-- The tables are made by `cargo xtask docs`. -->";
const END: &str = "<!-- End of the tables. -->";

fn path() -> PathBuf {
    root().join("docs/configuration.md")
}

/// Writes the tables.
pub fn update() -> Result<()> {
    let path = path();
    write(&path, &put(&read(&path)?, &table()?)?)
}

/// Fails if the file does not have the library's tables.
pub fn check() -> Result<()> {
    let text = read(&path())?;
    if put(&text, &table()?)? == text {
        return Ok(());
    }
    Err(error("is not what crates/config/src/keys.rs says; run cargo xtask docs"))
}

/// The tables, from the library. An example prints them, so that the other commands need not build
/// the library themselves.
fn table() -> Result<String> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "xtask", "--example", "configuration"]);
    output(&mut command)
}

/// Writes the headers, or with `check` fails if they are not what the sources say. An example of
/// this package does it, so that the other commands need not build cbindgen.
pub fn headers(check: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "xtask", "--example", "header"]);
    if check {
        command.args(["--", "--check"]);
    }
    run(&mut command)
}

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
