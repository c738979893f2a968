//! Files made from the sources: the tables of configuration keys in `docs/configuration.md`, that of programs in
//! `docs/existing-codes.md`, and the headers.

use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{output, root, run};
use crate::stage::{build, Profile};

/// The lines between which the tables stand.
const BEGIN: &str = "<!-- The tables are made by `cargo xtask docs`. -->";
const END: &str = "<!-- End of the tables. -->";

/// A document with tables that are made.
struct Document {
    path: PathBuf,
    /// Where its tables come from.
    source: &'static str,
    table: fn() -> Result<String>,
}

fn documents() -> [Document; 2] {
    let docs = root().join("docs");
    [
        Document {
            path: docs.join("configuration.md"),
            source: "crates/config/src/keys.rs",
            table: keys,
        },
        Document {
            path: docs.join("existing-codes.md"),
            source: "clients/results.tsv",
            table: clients,
        },
    ]
}

/// Writes the tables.
pub fn update() -> Result<()> {
    for document in documents() {
        write(&document.path, &document.with_table(&read(&document.path)?)?)?;
    }
    Ok(())
}

/// Fails if a document does not have the tables of its source.
pub fn check() -> Result<()> {
    for document in documents() {
        let text = read(&document.path)?;
        if document.with_table(&text)? != text {
            let (path, source) = (document.path.display(), document.source);
            return Err(Error::new(format!(
                "{path} is not what {source} says; run cargo xtask docs"
            )));
        }
    }
    Ok(())
}

impl Document {
    fn with_table(&self, text: &str) -> Result<String> {
        put(text, &(self.table)()?)
            .map_err(|error| Error::new(format!("{} {error}", self.path.display())))
    }
}

/// The results of `clients/run`: each line has the client, the program, its version, what was run, what came of it with
/// this library and with VELOC, and when.
fn clients() -> Result<String> {
    let path = root().join("clients/results.tsv");
    let mut table = "| program | version | what was run | this library | VELOC 1.8 | at |\n| --- | --- | --- | --- | --- | --- |"
        .to_owned();
    for line in read(&path)?.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, program, version, what, ours, theirs, at] = columns[..] else {
            return Err(Error::new(format!("{}: not 7 columns: {line}", path.display())));
        };
        table += &format!("\n| {program} | {version} | {what} | {ours} | {theirs} | {at} |");
    }
    Ok(table)
}

/// The tables, from the library. An example prints them, so that the other commands need not build
/// the library themselves.
fn keys() -> Result<String> {
    output(&mut example("configuration")?)
}

/// Writes the headers, or with `check` fails if they are not what the sources say. An example of
/// this package does it, so that the other commands need not build cbindgen.
pub fn headers(check: bool) -> Result<()> {
    let mut command = example("header")?;
    command.args(check.then_some("--check"));
    run(&mut command)
}

/// The command of an example of this package.
fn example(name: &str) -> Result<Command> {
    let built = build(&["xtask"], &["--example", name], Profile::Debug)?;
    Ok(Command::new(built.find(name)?))
}

fn put(text: &str, table: &str) -> Result<String> {
    let (before, rest) =
        text.split_once(BEGIN).ok_or_else(|| Error::new(format!("has no line `{BEGIN}`")))?;
    let (_, after) =
        rest.split_once(END).ok_or_else(|| Error::new(format!("has no line `{END}`")))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
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
