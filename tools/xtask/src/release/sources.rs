//! The tarball of the sources, and one build of what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::VERSION;
use crate::error::{Result, While};
use crate::files::folder;
use crate::package::{consumers, quietly};
use crate::project::{root, target_directory};

/// The tarball, and its content. All other files of the release are built from that, so that nothing is missing in
/// it.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) tarball: PathBuf,
    pub(super) folder: PathBuf,
    /// Where cargo builds. To it, crates of another folder are other crates.
    pub(super) target: PathBuf,
    pub(super) build: PathBuf,
}

impl Sources {
    /// Makes the tarball of the last commit in `work`, and unpacks it, in a folder below the target directory that is
    /// always the same: what cargo has built for it before is replaced.
    pub(super) fn unpack(work: &Path) -> Result<Sources> {
        let name = format!("veloc-{VERSION}");
        let tarball = work.join(format!("{name}.tar.gz"));
        let mut archive = Command::new("git");
        archive.args(["archive", "--format=tar.gz"]).arg(format!("--prefix={name}/"));
        quietly(archive.arg("--output").arg(&tarball).arg("HEAD").current_dir(root()))?;
        let target = target_directory()?;
        let unpacked = target.join("release-sources");
        if unpacked.exists() {
            fs::remove_dir_all(&unpacked).when(|| format!("removing {}", unpacked.display()))?;
        }
        folder(&unpacked)?;
        // Files are as new as this: with the time of the commit, cargo could take what it has built of an earlier one.
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--touch", "--file"]).arg(&tarball).arg("-C").arg(&unpacked);
        quietly(&mut unpack)?;
        Ok(Sources { tarball, folder: unpacked.join(name), target, build: work.join("build") })
    }

    pub(super) fn name(&self) -> String {
        self.tarball.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Builds the sources as a package for `/usr` has them.
    pub(super) fn build(&self) -> Result<()> {
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&self.folder).arg("-B").arg(&self.build);
        configure.arg("-DCMAKE_INSTALL_PREFIX=/usr");
        configure.arg(format!("-DVELOC_CARGO_TARGET_DIR={}", self.target.display()));
        quietly(&mut configure)?;
        quietly(Command::new("cmake").arg("--build").arg(&self.build)).map(drop)
    }

    /// Installs what was built, and builds and runs the examples there.
    pub(super) fn works_in_a_prefix(&self, work: &Path) -> Result<()> {
        let prefix = work.join("prefix");
        let mut install = Command::new("cmake");
        install.arg("--install").arg(&self.build).arg("--strip").arg("--prefix").arg(&prefix);
        quietly(&mut install)?;
        consumers::examples(&prefix, work, None)
    }
}
