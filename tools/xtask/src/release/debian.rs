//! The package for Debian: made by CPack, and tried in a system that debootstrap has made.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sources::Sources;
use super::VERSION;
use crate::error::{Error, Result, While};
use crate::package::{clean, consumers, quietly};
use crate::project::{has_program, output};

/// Makes the package of what was built.
pub(super) fn make(sources: &Sources, work: &Path) -> Result<PathBuf> {
    let folder = work.join("debian");
    let mut cpack = Command::new("cpack");
    cpack.arg("--config").arg(sources.build.join("CPackConfig.cmake"));
    quietly(cpack.arg("-B").arg(&folder))?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let package = folder.join(format!("veloc_{VERSION}_{}.deb", architecture.trim()));
    fs::metadata(&package).when(|| format!("looking for {}", package.display()))?;
    Ok(package)
}

/// The suite and the mirror of a system that can be made here: those of this one.
#[derive(Debug)]
pub(super) struct FreshDebian {
    suite: String,
    mirror: String,
}

impl FreshDebian {
    /// Whether it can be made here, or why not.
    pub(super) fn possible() -> std::result::Result<FreshDebian, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can make a fresh Debian".to_owned());
        }
        if !has_program("debootstrap") {
            return Err("there is no debootstrap".to_owned());
        }
        let mut nothing = apart();
        if !nothing.arg("true").status().is_ok_and(|status| status.success()) {
            return Err("unshare can make no namespaces here".to_owned());
        }
        let format = "$(COMPONENT) $(CODENAME) $(REPO_URI)";
        let mut targets = Command::new("apt-get");
        targets.args(["indextargets", "--format", format, "Identifier: Packages"]);
        let known = output(&mut targets).map_err(|error| error.to_string())?;
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let Some((suite, mirror)) = own_archive(&release, &known) else {
            return Err(format!("apt has no archive of this system among\n{known}"));
        };
        let debian = FreshDebian { suite: suite.to_owned(), mirror: mirror.to_owned() };
        let release = format!("{}/dists/{suite}/Release", mirror.trim_end_matches('/'));
        // debootstrap needs wget, too.
        let mut reach = Command::new("wget");
        reach.args(["--quiet", "--tries=1", "--timeout=30", "--output-document=/dev/null"]);
        match quietly(reach.arg(release)) {
            Ok(_) => Ok(debian),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes the system, installs the package there, and builds and runs one of its examples.
    pub(super) fn tries(&self, package: &Path, work: &Path) -> Result<()> {
        let system = work.join("system");
        let mut make = apart();
        make.args(["debootstrap", "--variant=minbase", &self.suite]).arg(&system);
        quietly(make.arg(&self.mirror))?;
        let name = package.file_name().unwrap_or_default();
        let inside = Path::new("/tmp").join(name);
        let to = system.join("tmp").join(name);
        fs::copy(package, &to).when(|| format!("copying the package to {}", to.display()))?;
        let run = |words: &[&OsStr]| {
            let mut command = apart();
            command.arg("--root").arg(&system).args(["--wd", "/tmp", "--mount-proc", "--"]);
            command.args(words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
            command.env("HOME", "/root").env("LC_ALL", "C").env_remove("TMPDIR");
            quietly(command.env("DEBIAN_FRONTEND", "noninteractive"))
        };
        let words = |line: &'static str| line.split(' ').map(OsStr::new).collect::<Vec<_>>();
        run(&words("apt-get --quiet update"))?;
        let mut install = words("apt-get --quiet --yes install --no-install-recommends");
        install.push(inside.as_os_str());
        install.extend(words("gcc libc6-dev pkg-config"));
        run(&install)?;
        let example = "cp -r /usr/share/veloc/examples . && cd examples && \
                       cc forward.c $(pkg-config --cflags --libs veloc) -o forward && ./forward";
        let said = run(&["sh", "-c", example].map(OsStr::new))?;
        if said != consumers::FORWARD {
            return Err(Error::new(format!("{}: forward.c printed\n{said}", system.display())));
        }
        let said = run(&words("veloc --version"))?;
        if !said.contains(VERSION) {
            return Err(Error::new(format!("{}: veloc is of version {said}", system.display())));
        }
        Ok(())
    }
}

/// A command in namespaces of its own: what it mounts is mounted nowhere else, and no process of it outlives it.
fn apart() -> Command {
    let mut command = clean("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command
}

/// Suite and mirror of the system that `os-release` describes, among the component, code name and address of all
/// that apt knows. Updates have a code name of their own.
fn own_archive<'a>(os_release: &str, known: &'a str) -> Option<(&'a str, &'a str)> {
    let mut lines = os_release.lines();
    let name = lines.find_map(|line| line.strip_prefix("VERSION_CODENAME="))?.trim_matches('"');
    known.lines().find_map(|line| {
        let mut words = line.split(' ');
        let found = words.next() == Some("main");
        let suite = words.next().filter(|suite| found && *suite == name)?;
        Some((suite, words.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a system that is made of updates alone, of another archive, or of another release.
    #[test]
    fn a_system_is_made_of_this_one_s_own_archive() {
        let release = "ID=debian\nVERSION_CODENAME=bookworm\n";
        let known = "main nodistro https://other/\ncontrib bookworm https://contrib/\n\
                     main bookworm-updates http://mirror/\nmain bookworm http://mirror/debian/\n";
        assert_eq!(own_archive(release, known), Some(("bookworm", "http://mirror/debian/")));
        assert_eq!(own_archive("VERSION_CODENAME=\"trixie\"\n", known), None);
        assert_eq!(own_archive("ID=debian\n", known), None);
    }
}
