//! The files of a release, made from the last commit, and tried each in an environment of its own.

mod changelog;
mod debian;
mod sources;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result, While};
use crate::files::{clear, folder, read, write};
use crate::package::{quietly, wheel};
use crate::project::{has_program, output, root, target_directory};
use crate::python::{has_module, tools};

use self::debian::FreshDebian;
use self::sources::Sources;

/// The version of everything here.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The file of the checksums.
const SUMS: &str = "SHA256SUMS";

/// A file of the release, and where it was tried.
#[derive(Debug)]
struct ReleaseFile {
    path: PathBuf,
    tried: Option<&'static str>,
}

/// What was made, and what was not made or not tried.
#[derive(Debug)]
pub struct Release {
    /// Names, bytes, and where each was tried.
    files: Vec<(String, u64, Option<&'static str>)>,
    folder: PathBuf,
    left_out: Vec<String>,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}:", self.folder.display())?;
        for (name, bytes, tried) in &self.files {
            writeln!(f, "{name}: {bytes} bytes, {}", tried.unwrap_or("not tried"))?;
        }
        self.left_out.iter().try_for_each(|what| writeln!(f, "{what}"))
    }
}

/// Makes the files of a release, tries them, and puts them into `out`, or below the target directory, in place of
/// those of an older release.
///
/// # Errors
/// The working tree is not that of the last commit, the changelog does not have this version, or a file cannot be
/// made or fails where it is tried.
pub fn make(out: Option<PathBuf>) -> Result<Release> {
    let out = match out {
        Some(out) => std::path::absolute(&out).when(|| format!("finding {}", out.display()))?,
        None => target_directory()?.join("release-files"),
    };
    is_committed()?;
    changelog::date(&read(&root().join("CHANGELOG.md"))?, VERSION)?;
    clear(&out, &[SUMS], "release")?;

    let what = || "making a temporary folder".to_string();
    let temporary = tempfile::Builder::new().prefix("veloc-release-").tempdir().when(what)?;
    let work = temporary.path();
    let mut left_out = Vec::new();
    let sources = Sources::unpack(work)?;
    let mut files = vec![ReleaseFile { path: sources.tarball.clone(), tried: None }];
    if has_program("cmake") {
        sources.build()?;
        sources.works_in_a_prefix(work)?;
        files[0].tried = Some("built, installed into a fresh prefix, and its examples run");
        files.extend(package(&sources, work, &mut left_out)?);
    } else {
        left_out.push(format!("not tried: {}: there is no cmake", sources.name()));
        left_out.push("not made: the package for Debian: there is no cmake".to_owned());
    }
    files.extend(python(&sources, work, &mut left_out)?);

    let files = put(&files, &out)?;
    Ok(Release { files, folder: out, left_out })
}

/// Fails if a file is not as in the last commit.
fn is_committed() -> Result<()> {
    let mut status = Command::new("git");
    let found = output(status.args(["status", "--porcelain"]).current_dir(root()))?;
    let changes = found.trim_end();
    if changes.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!(
        "a release is made from a commit, and these files differ from it:\n{changes}"
    )))
}

/// The package for Debian, tried if that is possible here.
fn package(
    sources: &Sources,
    work: &Path,
    left_out: &mut Vec<String>,
) -> Result<Option<ReleaseFile>> {
    if !has_program("dpkg-shlibdeps") {
        left_out.push("not made: the package for Debian: there is no dpkg-shlibdeps".to_owned());
        return Ok(None);
    }
    let path = debian::make(sources, work)?;
    let tried = match FreshDebian::possible() {
        Ok(debian) => {
            debian.tries(&path, work)?;
            Some("installed into a fresh Debian, and an example compiled and run there")
        }
        Err(why) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            left_out.push(format!("not tried: {name}: {why}"));
            None
        }
    };
    Ok(Some(ReleaseFile { path, tried }))
}

/// The wheel for Python, tried if that is possible here.
fn python(
    sources: &Sources,
    work: &Path,
    left_out: &mut Vec<String>,
) -> Result<Option<ReleaseFile>> {
    let tools = match tools() {
        Ok(tools) => tools,
        Err(error) => {
            left_out.push(format!("not made: the wheel: no tools for it: {error}"));
            return Ok(None);
        }
    };
    let path = wheel::build_from(&sources.folder, &tools, work, &sources.target)?;
    let mut tried = None;
    if has_module("numpy") {
        wheel::works_where_nothing_else_is(&path, work)?;
        tried = Some("installed into a fresh environment, and the examples of its README run");
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        left_out.push(format!("not tried: {name}: numpy is not installed"));
    }
    Ok(Some(ReleaseFile { path, tried }))
}

/// Puts the files and their checksums into the folder. Returns names, bytes, and where each was tried.
fn put(files: &[ReleaseFile], out: &Path) -> Result<Vec<(String, u64, Option<&'static str>)>> {
    folder(out)?;
    let mut there = Vec::new();
    for file in files {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what = || format!("copying {name} to {}", out.display());
        let bytes = fs::copy(&file.path, out.join(&name)).when(what)?;
        there.push((name, bytes, file.tried));
    }
    let names = there.iter().map(|(name, ..)| name);
    let sums = quietly(Command::new("sha256sum").args(names).current_dir(out))?;
    write(&out.join(SUMS), &sums)?;
    quietly(Command::new("sha256sum").args(["--check", "--strict", SUMS]).current_dir(out))?;
    there.push((SUMS.to_owned(), sums.len() as u64, Some("checked by sha256sum")));
    Ok(there)
}
