//! The program CRIU that `veloc run` is tested with: the system's, or else that of a newer Debian, with its own libraries beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::files::{self, FileLock};
use crate::project::{output, target_directory};

/// The release of Debian that has one for kernels of today.
const RELEASE: &str = "trixie";

/// Where it is, as `VELOC_CRIU` wants it.
///
/// # Errors
/// The system has none, and it cannot be had. Tests are skipped then.
pub fn find() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("VELOC_CRIU") {
        return Ok(given.into());
    }
    let own = Path::new("/usr/sbin/criu");
    if is_new(own) {
        return Ok(own.to_path_buf());
    }
    let target = target_directory()?;
    // Tests that begin at the same time fetch it once.
    let _only = FileLock::take(&target.join("criu.lock"))?;
    let folder = files::made(target.join("criu"), make)?;
    let program = folder.join("criu");
    match is_new(&program) {
        true => Ok(program),
        false => Err(Error::new(format!("{} is no CRIU that can be used", program.display()))),
    }
}

/// Whether it is one of version 4.1 at least. CRIU 3 fails on kernels of today.
fn is_new(program: &Path) -> bool {
    let mut command = Command::new(program);
    let said = command.arg("--version").stdin(Stdio::null()).output();
    let said = said
        .map_or_else(|_| String::new(), |said| String::from_utf8_lossy(&said.stdout).into_owned());
    let version = said.lines().find_map(|line| line.strip_prefix("Version: "));
    version.is_some_and(|version| !["3.", "4.0"].iter().any(|old| version.starts_with(old)))
}

/// Unpacks it with what it needs into a folder. The system's packages stay as they are.
fn make(folder: &Path) -> Result<()> {
    let listed = output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(RELEASE) $(REPO_URI)",
    ]))?;
    let repository = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(release, address)| {
            !release.contains('-') && address.trim_end_matches('/').ends_with("/debian")
        })
        .map(|(_, address)| address)
        .ok_or_else(|| Error::new("no packages of Debian are configured"))?;
    let (root, packages, sources) =
        (folder.join("root"), folder.join("packages"), folder.join("sources"));
    for made in [
        &root,
        &packages,
        &sources,
        &folder.join("lists/partial"),
        &folder.join("archives/partial"),
    ] {
        files::folder(made)?;
    }
    files::write(
        &sources.join("newer.sources"),
        &format!(
            "Types: deb\nURIs: {repository}\nSuites: {RELEASE}\nComponents: main\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        ),
    )?;
    files::write(&folder.join("status"), "")?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        for (name, value) in [
            ("Dir::Etc::sourcelist", Path::new("/dev/null")),
            ("Dir::Etc::sourceparts", &sources),
            ("Dir::State::lists", &folder.join("lists")),
            ("Dir::State::status", &folder.join("status")),
            ("Dir::Cache::archives", &folder.join("archives")),
            ("Dir::Cache::pkgcache", Path::new("")),
            ("Dir::Cache::srcpkgcache", Path::new("")),
        ] {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        }
        command.args(["--quiet=2"]).current_dir(&packages);
        command
    };
    output(apt("apt-get").arg("update"))?;
    let needed = output(apt("apt-get").args([
        "install",
        "--no-install-recommends",
        "--print-uris",
        "--yes",
        "criu",
    ]))?;
    // 'ADDRESS' name_version_architecture.deb SIZE DIGEST
    let needed = needed.lines().filter_map(|line| {
        line.split(' ').nth(1)?.split_once('_').map(|(name, _)| name.to_owned())
    });
    output(apt("apt-get").arg("download").args(needed))?;
    for package in std::fs::read_dir(&packages).into_iter().flatten().flatten() {
        output(Command::new("dpkg-deb").arg("--extract").arg(package.path()).arg(&root))?;
    }
    files::write_program(
        &folder.join("criu"),
        "#!/bin/sh\nroot=$(dirname \"$0\")/root\nlibraries=$(echo \"$root\"/usr/lib/*-linux-gnu)\n\
         exec \"$libraries\"/ld-linux-*.so.? --library-path \"$libraries\" \"$root/usr/sbin/criu\" \"$@\"\n",
    )
}
