//! The oldest Rust that the project promises to build with.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use xtask::files;
use xtask::project::{cargo, output, root};

/// Release and minor release of a version such as `1.85` or `1.85.0`.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap_or(0))
}

/// The oldest Rust in the workspace's packages, such as `1.85`.
fn promised() -> &'static str {
    env!("CARGO_PKG_RUST_VERSION")
}

/// Catches a crate that cargo refuses to build with that Rust: its users could build nothing.
#[test]
fn every_crate_of_the_lock_file_is_built_by_it() {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    let metadata: serde_json::Value =
        serde_json::from_str(&output(&mut metadata).unwrap()).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{}", packages.len());
    let newer: Vec<_> = packages
        .iter()
        .filter(|package| {
            let asked = package["rust_version"].as_str();
            asked.is_some_and(|version| release(version) > release(promised()))
        })
        .map(|package| format!("{} {}", package["name"], package["rust_version"]))
        .collect();
    assert!(newer.is_empty(), "these need a newer Rust than {}: {newer:?}", promised());
}

/// Catches a text that promises another version.
#[test]
fn it_is_the_same_everywhere() {
    for (file, text) in [
        ("README.md", "A Rust toolchain (VERSION)"),
        ("cmake/cargo.cmake", "install a Rust toolchain (VERSION or newer)"),
        ("packaging/spack/package.py", "rust@VERSION:"),
    ] {
        let wanted = text.replace("VERSION", promised());
        let found = files::read(&root().join(file)).unwrap();
        assert!(found.contains(&wanted), "{file} lacks {wanted:?}");
    }
}
