//! The tutorials, done with the installed package as their pages say.

use std::path::Path;
use std::process::Command;

use super::{clean, quietly, Installed};
use crate::driver;
use crate::error::{Error, Result};
use crate::files::{folder, read, write};
use crate::project::{has_program, root};
use crate::python::{has_module, interpreter};

/// The tutorials, and what they need beside a C compiler.
const TUTORIALS: [(&str, Option<&str>); 5] = [
    ("first-checkpoint", None),
    ("arrays", Some("gcc")),
    ("adjoint-python", Some("numpy")),
    ("fortran-mpi", Some("mpifort")),
    ("gpu", Some("nvcc and a GPU")),
];

/// Does each tutorial. Those that need what is not there are returned, with what it is.
pub(super) fn check(package: &Installed, work: &Path) -> Result<Vec<String>> {
    let mut skipped = Vec::new();
    for (name, needed) in TUTORIALS {
        let is_there = |needed: &str| match needed {
            "numpy" => has_module(needed),
            "nvcc and a GPU" => has_program("nvcc") && driver::devices() > 0,
            _ => has_program(needed),
        };
        match needed.filter(|needed| !is_there(needed)) {
            Some(needed) => skipped.push(format!("the tutorial {name}: there is no {needed}")),
            None => done(package, name, &work.join("tutorials").join(name))
                .map_err(|error| Error::new(format!("docs/tutorials/{name}.md: {error}")))?,
        }
    }
    Ok(skipped)
}

/// What a block of a page is.
enum Block<'a> {
    /// Commands.
    Shell(&'a str),
    /// Lines that the commands before it have to print.
    Printed(&'a str),
    /// A file of this name.
    File(&'a str, &'a str),
}

/// Saves the files, runs the commands and looks for what they print.
fn done(package: &Installed, name: &str, place: &Path) -> Result<()> {
    let page = read(&root().join(format!("docs/tutorials/{name}.md")))?;
    folder(place)?;
    let mut printed = String::new();
    for block in blocks(&page)? {
        match block {
            Block::Shell(commands) => printed = quietly(&mut shell(package, place, commands))?,
            Block::Printed(lines) => {
                if let Some(line) = lines.lines().find(|line| !printed.contains(*line)) {
                    return Err(Error::new(format!("\"{line}\" is not in\n{printed}")));
                }
            }
            Block::File(name, text) => write(&place.join(name), text)?,
        }
    }
    Ok(())
}

/// The blocks of a page. A file's name is the last one in the text before it.
fn blocks(page: &str) -> Result<Vec<Block<'_>>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((before, block)) = rest.split_once("```") {
        let (language, block) = block.split_once('\n').unwrap_or_default();
        let (text, behind) = block
            .split_once("```")
            .ok_or_else(|| Error::new(format!("a block of {language} does not end")))?;
        blocks.push(match language {
            "sh" => Block::Shell(text),
            "text" => Block::Printed(text),
            _ => {
                let names = before.split('`').skip(1).step_by(2);
                let name = names.filter(|name| name.contains('.')).last();
                Block::File(name.ok_or_else(|| Error::new("a file without a name"))?, text)
            }
        });
        rest = behind;
    }
    Ok(blocks)
}

/// A shell in which the package is found as its pages say.
fn shell(package: &Installed, place: &Path, commands: &str) -> Command {
    let bin = package.prefix.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let python = interpreter();
    let python = python.parent().unwrap_or(Path::new("/usr/bin"));
    let mut shell = clean("sh");
    shell.args(["-e", "-c", commands]).current_dir(place);
    shell.env("PATH", format!("{}:{}:{path}", bin.display(), python.display()));
    shell.env("PKG_CONFIG_PATH", package.prefix.join(package.libdir).join("pkgconfig"));
    // As if the wheel was installed.
    shell.env("PYTHONPATH", root().join("python")).env("VELOC_LIBRARY", package.library());
    // Three processes on a machine with fewer cores, and by root.
    shell
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    shell.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a block that is taken for another, and a file that gets another one's name.
    #[test]
    fn blocks_are_what_their_pages_say() {
        let page = "Look at `a.c`. Save this as `b.c`:\n\n```c\nint x;\n```\n\n```sh\ncc b.c\n```\n\n```text\nok\n```\n";
        let found = blocks(page).unwrap();
        assert!(matches!(found[0], Block::File("b.c", "int x;\n")));
        assert!(matches!(found[1], Block::Shell("cc b.c\n")));
        assert!(matches!(found[2], Block::Printed("ok\n")));
        assert!(blocks("```c\nint x;\n```\n").is_err() && blocks("`a.c`\n```c\n").is_err());
    }

    /// Catches a tutorial that nobody does.
    #[test]
    fn every_tutorial_is_done() {
        for entry in std::fs::read_dir(root().join("docs/tutorials")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_known = TUTORIALS.iter().any(|(known, _)| name == format!("{known}.md"));
            assert!(is_known || name == "README.md", "{name}");
        }
    }
}
