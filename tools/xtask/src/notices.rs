//! `THIRD-PARTY-NOTICES`: the licences of the crates that are linked into what others get, with
//! their texts. It goes with the bundle and with the installed package.
//!
//! | file | is |
//! | --- | --- |
//! | `graph` | which crates these are, and where cargo has them |
//! | `licence` | licence expressions, and what a licence's text is known by |
//! | `texts` | the texts that a crate brings |
//!
//! Of several licences that a crate leaves to choose from, one is taken whose text it brings. A
//! crate without a text is an error, unless it is named here with what stands for it.

mod graph;
mod licence;
mod texts;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::graph::Crate;
use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{output, root};

/// The file's name, in the checkout, in a bundle and in a package.
pub const NAME: &str = "THIRD-PARTY-NOTICES";

/// What the notices of Rust's standard library are called beside it.
pub const RUST_NAME: &str = "rust-standard-library.html";

/// Crates that do not bring the text of their licence.
struct Exception {
    names: &'static [&'static str],
    /// What stands for it.
    instead: Text,
    /// The texts that they do bring, which are those of parts.
    files: &'static [&'static str],
}

/// A text that the project has.
enum Text {
    /// Apache-2.0, which says nothing of whose work it is about.
    Apache,
    /// MIT with this line. Where it is from stands beside it.
    Mit(&'static str),
}

const EXCEPTIONS: [Exception; 1] =
    [Exception { names: &["embedded-graphics-core"], instead: Text::Apache, files: &[] }];

/// The line of Rust's standard library.
const RUST: &str = "Copyright (c) The Rust Project Contributors";

/// The line between two texts.
const RULE: &str =
    "================================================================================";

/// What stands above the list.
const HEAD: &str = "\
Third-party notices

veloc's own licences are in LICENSE-MIT and LICENSE-APACHE. Its library and its programs (veloc,
veloc-backend; in a bundle also rtm and the software device) are linked with the crates below, each
under the licence named beside it, whose text stands under the number in brackets. Rust's standard
library is linked in, too, under MIT (text [0]); what that is made of is listed in
rust-standard-library.html beside this file, which is share/doc/rust/COPYRIGHT-library.html of the
Rust toolchain that compiled it.

Made by `cargo xtask notices`.
";

/// The file in which the Rust toolchain says what its standard library is made of, if it has one.
pub fn of_rust() -> Result<Option<PathBuf>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--print", "sysroot"]).current_dir(root());
    let sysroot = output(&mut command)?;
    let file = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    Ok(file.is_file().then_some(file))
}

/// Writes the file.
pub fn update() -> Result<()> {
    write(&root().join(NAME), &notices()?)
}

/// Fails if the file is not what the crates say.
pub fn check() -> Result<()> {
    if read(&root().join(NAME))? == notices()? {
        return Ok(());
    }
    Err(Error::new(format!("{NAME} is not what the crates say; run cargo xtask notices")))
}

fn notices() -> Result<String> {
    let crates = graph::crates()?;
    let excepted = EXCEPTIONS.iter().flat_map(|exception| exception.names);
    for name in excepted {
        if !crates.iter().any(|each| each.name == *name) {
            return Err(Error::new(format!("{NAME}: no crate {name} is linked any more")));
        }
    }
    let notices = crates.iter().map(Notice::of).collect::<Result<Vec<_>>>()?;
    Ok(render(&Text::Mit(RUST).read()?, &notices))
}

impl Text {
    fn licence(&self) -> &'static str {
        match self {
            Text::Apache => "Apache-2.0",
            Text::Mit(_) => "MIT",
        }
    }

    fn read(&self) -> Result<String> {
        let own = |name: &str| read(&root().join(name)).map(|text| texts::normalised(&text));
        let copyright = match self {
            Text::Apache => return own("LICENSE-APACHE"),
            Text::Mit(copyright) => copyright,
        };
        let text = own("LICENSE-MIT")?;
        let of = |line: &&str| line.starts_with("Copyright (c)");
        let line = text.lines().find(of).ok_or_else(|| Error::new("LICENSE-MIT: whose is it?"))?;
        Ok(text.replacen(line, copyright, 1))
    }
}

/// What there is to say about a crate.
#[derive(Debug)]
struct Notice {
    /// Name and version.
    name: String,
    /// The licences that are taken.
    licences: Vec<&'static str>,
    texts: Vec<String>,
}

impl Notice {
    fn of(of: &Crate) -> Result<Notice> {
        let name = format!("{} {}", of.name, of.version);
        let mut texts = texts::of(&of.folder)?;
        let exception = EXCEPTIONS.iter().find(|each| each.names.contains(&&*of.name));
        let mut instead = None;
        if let Some(exception) = exception {
            let licence = exception.instead.licence();
            if texts.iter().any(|text| licence::is(licence, text)) {
                return Err(Error::new(format!("{name}: brings the text of {licence} by now")));
            }
            let file = |file: &&str| texts::read(&of.folder.join(file));
            texts = exception.files.iter().map(file).collect::<Result<Vec<_>>>()?;
            instead = Some(licence);
        }
        let brought = |licence: &str| texts.iter().any(|text| licence::is(licence, text));
        let has = |licence: &str| match (instead, licence) {
            (Some(instead), _) if licence == instead => true,
            // That of a part.
            (Some("Apache-2.0"), "MIT") => false,
            _ => brought(licence),
        };
        let licences = licence::choose(&of.expression, &has)?.ok_or_else(|| {
            Error::new(format!(
                "{name}: brings no text of its licence {}, in {}",
                of.expression,
                of.folder.display()
            ))
        })?;
        match exception {
            Some(exception) => texts.push(exception.instead.read()?),
            None => texts.retain(|text| licence::is_notice(text, &licences)),
        }
        Ok(Notice { name, licences, texts })
    }
}

/// The file: a list, and each text once.
fn render(rust: &str, notices: &[Notice]) -> String {
    let mut texts: Vec<&str> = vec![rust];
    let mut list = String::new();
    for notice in notices {
        let mut numbers = Vec::new();
        for text in &notice.texts {
            let known = texts.iter().position(|known| licence::same(known, text));
            numbers.push(known.unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            }));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let numbers: Vec<String> = numbers.iter().map(|number| format!("[{number}]")).collect();
        let licences = notice.licences.join(" AND ");
        // Writing to a String cannot fail.
        let _ = writeln!(list, "{:<34} {licences:<34} {}", notice.name, numbers.join(" "));
    }
    let mut file = format!("{HEAD}\n{list}");
    for (number, text) in texts.iter().enumerate() {
        let _ = write!(file, "\n{RULE}\n[{number}]\n\n{text}\n");
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(expression: &str, files: &[(&str, &str)]) -> Result<Notice> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(&folder.path().join(name), text).unwrap();
        }
        let (name, version) = ("some".to_owned(), "1.2.3".to_owned());
        let expression = expression.to_owned();
        let each = Crate { name, version, expression, folder: folder.path().to_path_buf() };
        Notice::of(&each)
    }

    const MIT: &str = "Copyright somebody\r\n\r\nPermission is hereby granted, free of charge, to \
                       any person\r\nobtaining a copy";
    const ZLIB: &str = "This software is provided 'as-is', without any express or implied warranty";

    /// Catches a crate that is let through without the text of a licence that it needs.
    #[test]
    fn a_crate_without_its_text_is_named() {
        for (expression, files) in [
            ("MIT", &[][..]),
            ("MIT", &[("LICENSE", "see elsewhere")]),
            ("MIT AND Zlib", &[("LICENSE", MIT)]),
            ("Apache-2.0", &[("LICENSE-MIT", MIT)]),
        ] {
            let error = of(expression, files).unwrap_err().to_string();
            assert!(error.contains("some 1.2.3") && error.contains(expression), "{error}");
        }
    }

    #[test]
    fn texts_of_the_licences_that_are_taken_stand_once() {
        let files = [("LICENSE-MIT", MIT), ("LICENSE-ZLIB.md", ZLIB), ("NOTICE", "By somebody.")];
        let first = of("MIT OR Zlib", &files).unwrap();
        assert_eq!((&first.licences[..], first.texts.len()), (&["MIT"][..], 2));
        let second = of("Zlib", &files[1..2]).unwrap();
        let third = of("MIT", &[("licences/MIT.txt", &MIT.replace("\r\n", "\n"))]).unwrap();
        let file = render("of Rust", &[first, second, third]);
        let lines: Vec<&str> = file.lines().filter(|line| line.starts_with("some")).collect();
        let ends: Vec<_> = lines.iter().map(|line| line.split_at(70).1).collect();
        assert_eq!(ends, ["[1] [2]", "[3]", "[1]"]);
        assert_eq!(file.matches("Copyright somebody").count(), 1);
        assert!(file.contains("\n[2]\n\nBy somebody.\n"), "{file}");
    }
}
