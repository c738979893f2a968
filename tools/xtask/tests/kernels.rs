//! The kernels' PTX, which is compiled ahead and committed.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use xtask::files;
use xtask::project::root;

/// The newest version of PTX that drivers are expected to take: that of CUDA 9, of driver 384.
const NEWEST: u32 = 6;

/// The PTX beside each kernel's source.
fn kernels() -> Vec<PathBuf> {
    let folders = ["crates/device/kernels", "examples/rtm/kernels", "tools/veloc-bench/kernels"];
    let folders = folders.map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let sources =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().unwrap() == "cu");
    sources.map(|source| source.with_extension("ptx")).collect()
}

/// A driver refuses PTX of a version newer than itself, whatever is in it.
#[test]
fn old_drivers_take_the_kernels() {
    let kernels = kernels();
    assert_eq!(kernels.len(), 3);
    for path in kernels {
        let text = files::read(&path).unwrap();
        let versions = text.lines().filter_map(|line| line.strip_prefix(".version "));
        let majors: Vec<u32> =
            versions.map(|version| version.split('.').next().unwrap().parse().unwrap()).collect();
        assert!(matches!(majors[..], [major] if major <= NEWEST), "{}: {majors:?}", path.display());
    }
}
