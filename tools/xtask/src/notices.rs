//! `THIRD-PARTY-NOTICES`: the licences, with their texts, of the crates that are linked into the
//! programs and libraries. The file goes with the bundle and with the installed package.
//! cargo-about makes it from `about.toml` and `about.hbs`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::files::{read, write};
use crate::project::{cargo, has_program, output, root};

/// The file's name, in the checkout, in a bundle and in a package.
pub const NAME: &str = "THIRD-PARTY-NOTICES";

/// The name of the notices of Rust's standard library beside it.
pub const RUST_NAME: &str = "rust-standard-library.html";

/// The machines that the project is built for, as in about.toml.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// With the crates that make the headers.
const FEATURES: &str = "--features=xtask/header";

/// Placeholders for the owner's name in the general text of a licence.
const BLANKS: [&str; 3] = ["<year>", "<copyright", "<owner>"];

/// The file in which the Rust toolchain lists the parts of its standard library, if it has one.
pub fn of_rust() -> Result<Option<PathBuf>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--print", "sysroot"]).current_dir(root());
    let sysroot = output(&mut command)?;
    let file = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    Ok(file.is_file().then_some(file))
}

/// Makes the file with cargo-about.
pub fn update() -> Result<()> {
    if !has_program("cargo-about") {
        let install = "cargo install cargo-about --locked --features cli";
        return Err(Error::new(format!("cargo-about is not installed; run: {install}")));
    }
    let mut about = cargo();
    about.args(["about", "generate", "--workspace", FEATURES, "--locked", "--fail", "about.hbs"]);
    let text = output(&mut about)?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    if let Some(line) = lines.iter().find(|line| BLANKS.iter().any(|blank| line.contains(blank))) {
        let why = "a crate brings no text of its licence; say in about.toml where it is";
        return Err(Error::new(format!("{NAME} would have the line {line:?}: {why}")));
    }
    write(&root().join(NAME), &format!("{}\n", lines.join("\n").trim_end()))
}

/// Fails if the file lists other crates or versions than cargo does. Needs no cargo-about.
pub fn check() -> Result<()> {
    let (listed, linked) = (listed(&read(&root().join(NAME))?), linked()?);
    let different: Vec<&str> = listed.symmetric_difference(&linked).map(String::as_str).collect();
    match &different[..] {
        [] => Ok(()),
        _ => Err(Error::new(format!(
            "{NAME} and cargo differ in {}; run cargo xtask notices",
            different.join(", ")
        ))),
    }
}

/// The crates that the file lists, with their versions: lines `name version: licence` above the first
/// text.
fn listed(text: &str) -> BTreeSet<String> {
    let list = text.lines().take_while(|line| !line.starts_with("===="));
    let list = list.filter_map(|line| line.split_once(": "));
    // The head has a colon as well.
    let is_entry = |entry: &&str| entry.split(' ').count() == 2;
    list.map(|(entry, _)| entry).filter(is_entry).map(str::to_owned).collect()
}

/// The crates of others that cargo builds for the workspace's libraries and programs.
fn linked() -> Result<BTreeSet<String>> {
    let mut linked = BTreeSet::new();
    for target in TARGETS {
        let mut tree = cargo();
        tree.args(["tree", "--workspace", "--locked", "--edges", "normal", "--prefix", "none"]);
        tree.args(["--format", "{p}", "--target", target, FEATURES]);
        // `name v1.2.3`, and for a package of the project itself its folder.
        let text = output(&mut tree)?;
        let others = text.lines().filter(|line| !line.contains("(/"));
        linked.extend(others.filter_map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some(format!("{name} {}", rest.split(' ').next()?))
        }));
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a check that always passes, as with a list that is read as empty.
    #[test]
    fn the_list_is_read_and_nothing_else() {
        let text = "Head: some words\n\nfoo 1.2.3: MIT OR Apache-2.0\nbar-baz 0.1.0+x: ISC\n\n\
                    ========\nMIT License: foo 1.2.3\n\nnot this: text\n";
        let wanted = ["bar-baz 0.1.0+x", "foo 1.2.3"].map(str::to_owned);
        assert_eq!(listed(text), BTreeSet::from(wanted));
        let own = listed(&read(&root().join(NAME)).unwrap());
        assert!(own.iter().any(|each| each.starts_with("libc 0.")), "{own:?}");
    }
}
