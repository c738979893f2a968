//! Which crates are linked into what others get, and where cargo has their sources.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Error, Result, While};
use crate::project::{cargo, output};

/// The packages whose libraries and programs others get.
const PACKAGES: [&str; 5] = ["veloc", "veloc-cli", "rtm", "softcuda", "softcudart"];

/// The machines that the project is built for, as in deny.toml.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// A crate of others.
#[derive(Debug)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it says of its licence.
    pub expression: String,
    /// Its sources.
    pub folder: PathBuf,
}

/// All of them, by name. Macros and what these are made of are among them: they write a part of the
/// code.
pub fn crates() -> Result<Vec<Crate>> {
    let mut linked = BTreeSet::new();
    for target in TARGETS {
        let mut tree = cargo();
        tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}", "--target", target])
            .args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        // `name v1.2.3`, and more where it is a macro or a folder.
        for line in output(&mut tree)?.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(version)) = (words.next(), words.next()) {
                linked.insert((name.to_owned(), version.trim_start_matches('v').to_owned()));
            }
        }
    }
    let mut metadata = cargo();
    metadata
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(TARGETS.iter().flat_map(|target| ["--filter-platform", target]));
    let found: serde_json::Value =
        serde_json::from_str(&output(&mut metadata)?).when(|| "reading cargo's metadata".into())?;
    let mut crates = Vec::new();
    for package in found["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let key = (text("name"), text("version"));
        // Those of the project itself have no source; they are found, and left out.
        if !linked.remove(&key) || package["source"].is_null() {
            continue;
        }
        let manifest = PathBuf::from(text("manifest_path"));
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        let (name, version) = key;
        crates.push(Crate { name, version, expression: text("license"), folder });
    }
    if let Some((name, version)) = linked.first() {
        return Err(Error::new(format!("cargo's metadata has no package {name} {version}")));
    }
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}
