//! `cargo xtask quick`: checks a change of a few lines in less than a minute: format, lints and
//! unit tests of the packages that have changed, and one C program with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::project::{metadata, output, root};
use crate::steps::{cargo_step, run_all, CommandStep, StepOutcome};

/// The test of the C interface that is always run: a C program in a few jobs with host memory.
const PROGRAM: &str = "host::ephemeral_jobs";

#[derive(Debug)]
struct Package {
    name: String,
    folder: PathBuf,
    /// Whether the package has a library; otherwise its programs have the unit tests.
    has_library: bool,
}

/// Checks the files that differ from the last commit or, if none does, those that this commit has
/// changed.
pub fn quick() -> Result<()> {
    let (packages, (files, is_last)) = (packages()?, changed()?);
    let changed = owners(&packages, &files);
    let names: Vec<&str> = changed.iter().map(|package| &*package.name).collect();
    let count = files.len();
    let files = if count == 1 { "file" } else { "files" };
    let changed_in = if is_last { "by the last commit" } else { "since the last commit" };
    let of = match &names[..] {
        [] => "of no package: no lints, no unit tests".to_owned(),
        names => format!("of packages: {}", names.join(", ")),
    };
    println!("changed {changed_in}: {count} {files}, {of}");
    let format = || cargo_step(&["fmt", "--all", "--check"], &[]);
    let lints = || of_packages("clippy", &names, &["--all-targets", "--", "-D", "warnings"]);
    let tests = || {
        for (has_library, which) in [(true, "--lib"), (false, "--bins")] {
            let those = changed.iter().filter(|package| package.has_library == has_library);
            let names: Vec<&str> = those.map(|package| &*package.name).collect();
            if !names.is_empty() {
                of_packages("test", &names, &[which])?;
            }
        }
        Ok(StepOutcome::Passed)
    };
    let program =
        || of_packages("test", &["capi-tests"], &["--test", "capi", "--", "--exact", PROGRAM]);
    let mut steps = vec![CommandStep {
        name: "format",
        about: "rustfmt finds nothing to change",
        run: &format,
    }];
    if !changed.is_empty() {
        steps.push(CommandStep { name: "lints", about: "clippy has no warning", run: &lints });
        steps.push(CommandStep {
            name: "tests",
            about: "unit tests of what has changed",
            run: &tests,
        });
    }
    steps.push(CommandStep {
        name: "program",
        about: "a C program with the library",
        run: &program,
    });
    run_all(&steps, false).result(|_| "to repeat: cargo xtask quick".to_owned())
}

fn of_packages(command: &str, packages: &[&str], rest: &[&str]) -> Result<StepOutcome> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> =
        std::iter::once(command).chain(packages).chain(rest.iter().copied()).collect();
    cargo_step(&arguments, &[])
}

fn packages() -> Result<Vec<Package>> {
    let found = metadata()?;
    let packages = found["packages"].as_array().into_iter().flatten();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let is_library = |kind: &serde_json::Value| {
        matches!(
            kind.as_str(),
            Some("lib" | "rlib" | "cdylib" | "staticlib" | "dylib" | "proc-macro")
        )
    };
    Ok(packages
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let targets = package["targets"].as_array().into_iter().flatten();
            let mut kinds = targets.flat_map(|target| target["kind"].as_array()).flatten();
            Package {
                name: text(&package["name"]),
                folder: manifest.parent().unwrap_or(Path::new("")).to_path_buf(),
                has_library: kinds.any(is_library),
            }
        })
        .collect())
}

/// The files that differ from the last commit and those that git does not know yet; if there are
/// none, those that the last commit has changed, and `true`.
fn changed() -> Result<(Vec<PathBuf>, bool)> {
    let git = |arguments: &[&str]| -> Result<Vec<PathBuf>> {
        let text = output(Command::new("git").args(arguments).current_dir(root()))?;
        Ok(text.lines().map(|line| root().join(line)).collect())
    };
    let mut files = git(&["diff", "--name-only", "--relative", "HEAD"])?;
    files.extend(git(&["ls-files", "--others", "--exclude-standard"])?);
    if files.is_empty() {
        return Ok((git(&["diff", "--name-only", "--relative", "HEAD^", "HEAD"])?, true));
    }
    Ok((files, false))
}

/// The packages that these files belong to: each file to the package whose folder it is deepest in.
/// Pages for readers belong to no package.
fn owners<'a>(packages: &'a [Package], files: &[PathBuf]) -> Vec<&'a Package> {
    let of = |file: &PathBuf| {
        let around = packages.iter().filter(|package| file.starts_with(&package.folder));
        around.max_by_key(|package| package.folder.components().count()).map(|owner| &*owner.name)
    };
    let is_page = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "md");
    let owners: Vec<&str> = files.iter().filter(|file| !is_page(file)).filter_map(of).collect();
    packages.iter().filter(|package| owners.contains(&&*package.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners_of(files: &[&str]) -> Vec<String> {
        let package = |(name, folder): &(&str, &str)| Package {
            name: (*name).to_owned(),
            folder: folder.into(),
            has_library: true,
        };
        let all = [("whole", "/w"), ("os", "/w/crates/os"), ("os-more", "/w/crates/os-more")];
        let packages: Vec<Package> = all.iter().map(package).collect();
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        owners(&packages, &files).into_iter().map(|owner| owner.name.clone()).collect()
    }

    /// Catches a file that is assigned to an enclosing package, or to one whose name is the
    /// beginning of another name, and a package that is checked twice.
    #[test]
    fn a_file_belongs_to_the_package_that_it_is_deepest_in() {
        assert_eq!(owners_of(&["/w/src/lib.rs", "/w/Cargo.lock"]), ["whole"]);
        assert_eq!(owners_of(&["/w/crates/os/src/a.rs", "/w/crates/os/src/b.rs"]), ["os"]);
        assert_eq!(owners_of(&["/w/crates/os-more/Cargo.toml"]), ["os-more"]);
        assert_eq!(owners_of(&["/w/crates/os/a.c", "/w/src/lib.rs"]), ["whole", "os"]);
    }

    #[test]
    fn pages_and_what_lies_elsewhere_belong_to_none() {
        assert!(owners_of(&["/w/docs/tools.md", "/elsewhere/lib.rs"]).is_empty());
    }

    /// Catches a manifest that is read wrongly: nothing would ever be tested.
    #[test]
    fn the_packages_of_this_workspace_are_found() {
        let packages = packages().unwrap();
        let library = |name| {
            packages.iter().find(|package| package.name == name).map(|package| package.has_library)
        };
        assert_eq!(
            (library("veloc"), library("xtask"), library("veloc-cli")),
            (Some(true), Some(true), Some(false))
        );
        let own = owners(&packages, &[Path::new(env!("CARGO_MANIFEST_DIR")).join("src/quick.rs")]);
        assert!(matches!(own[..], [package] if package.name == "xtask"), "{own:?}");
    }
}
