//! A folder with everything that tests and measures the library on a machine that has an NVIDIA
//! driver, but neither Rust nor a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result, While};
use crate::files::{copy, copy_folder, folder, link};
use crate::project::{root, run, target_directory};
use crate::stage::{build, stage, Profile};

/// The most that a bundle may take, in bytes.
const LARGEST: u64 = 60 << 20;

/// The project's documents that a bundle has, too, beside those in `docs/`.
const DOCUMENTS: [&str; 5] =
    ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "softcuda/README.md"];

/// Makes the bundle at `out` (by default `<target>/gpu-bundle`), in place of what was there.
pub fn make(out: Option<PathBuf>) -> Result<PathBuf> {
    let out = match out {
        Some(out) => out,
        None => target_directory()?.join("gpu-bundle"),
    };
    clear(&out)?;
    let stage = stage(Profile::Release)?;
    for (package, program) in [("rtm", "rtm"), ("veloc-cli", "veloc")] {
        let built = build(&[package], Profile::Release)?;
        strip(built.find(program)?, &out.join("bin").join(program), "--strip-all")?;
    }
    let backend = "bin/veloc-backend";
    strip(&stage.folder.join(backend), &out.join(backend), "--strip-all")?;
    strip(&stage.shared_library(), &out.join("lib/libveloc-client.so"), "--strip-unneeded")?;
    let device = "softcuda/libcuda.so.1";
    strip(&stage.folder.join(device), &out.join(device), "--strip-unneeded")?;
    link("libcuda.so.1", &out.join("softcuda/libcuda.so"))?;
    copy_folder(&stage.include(), &out.join("include"))?;
    copy_folder(&root().join("gpu"), &out.join("gpu"))?;
    copy_folder(&root().join("capi-tests/programs"), &out.join("programs"))?;
    fs::rename(out.join("gpu/run.sh"), out.join("run.sh"))
        .when(|| format!("moving run.sh to {}", out.display()))?;

    documents(&out)?;

    for source in sources(&out.join("programs"))? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        compile(&out, &name, &[source])?;
    }

    let bytes = size(&out)?;
    if bytes > LARGEST {
        return Err(Error::new(format!(
            "{} has {bytes} bytes; {LARGEST} are allowed",
            out.display()
        )));
    }
    Ok(out)
}

/// What a reader needs beside the programs, and what they must be accompanied by.
fn documents(out: &Path) -> Result<()> {
    for name in DOCUMENTS {
        copy(&root().join(name), &out.join(name))?;
    }
    copy_folder(&root().join("docs"), &out.join("docs"))
}

/// Removes an older bundle. Anything else stays, and is an error.
fn clear(out: &Path) -> Result<()> {
    let what = || format!("removing {}", out.display());
    if !out.exists() {
        return Ok(());
    }
    let empty = fs::read_dir(out).when(what)?.next().is_none();
    if !empty && !out.join("run.sh").is_file() {
        return Err(Error::new(format!("{} is there, and is no bundle", out.display())));
    }
    fs::remove_dir_all(out).when(what)
}

/// Copies a program or library without what only a debugger needs.
fn strip(from: &Path, to: &Path, how: &str) -> Result<()> {
    if let Some(parent) = to.parent() {
        folder(parent)?;
    }
    run(Command::new("strip").arg(how).arg("-o").arg(to).arg(from))
}

/// The C files of a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("reading the folder {}", folder.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).when(what)? {
        let path = entry.when(what)?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

/// Compiles a program of the bundle, as its run.sh would.
fn compile(out: &Path, name: &str, sources: &[PathBuf]) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    run(Command::new(compiler)
        .args(["-std=c99", "-D_GNU_SOURCE", "-O2", "-s", "-pthread"])
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(out.join("include"))
        .args(sources)
        .arg("-o")
        .arg(out.join("bin").join(name))
        .arg("-L")
        .arg(out.join("lib"))
        .args(["-lveloc-client", "-ldl", "-Wl,-rpath,$ORIGIN/../lib"]))
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let what = || format!("reading the folder {}", folder.display());
    let mut bytes = 0;
    for entry in fs::read_dir(folder).when(what)? {
        let path = entry.when(what)?.path();
        let found = fs::symlink_metadata(&path).when(what)?;
        bytes += if found.is_dir() { size(&path)? } else { found.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{read, write};

    #[test]
    fn only_a_bundle_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        clear(&out).unwrap();
        write(&out.join("precious"), "x").unwrap();
        let error = clear(&out).unwrap_err();
        assert!(error.to_string().contains("is no bundle"), "{error}");
        write(&out.join("run.sh"), "x").unwrap();
        clear(&out).unwrap();
        assert!(!out.exists());
    }

    /// Catches a document that is left out: the others point to it.
    #[test]
    fn what_the_documents_point_to_is_in_the_bundle() {
        let out = tempfile::tempdir().unwrap();
        documents(out.path()).unwrap();
        // Put there by other steps.
        folder(&out.path().join("include")).unwrap();
        write(&out.path().join("include/veloc.h"), "").unwrap();
        for (document, at_least) in
            [("README.md", 6), ("docs/bench.md", 1), ("docs/guide.md", 2), ("docs/model.md", 0)]
        {
            let text = read(&out.path().join(document)).unwrap();
            let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let local: Vec<&str> = links
                .filter(|link| !link.contains("://") && !link.starts_with('#'))
                .map(|link| link.split('#').next().unwrap())
                .collect();
            assert!(local.len() >= at_least, "{document}: {local:?}");
            let folder = out.path().join(document);
            for link in local {
                assert!(folder.with_file_name(link).exists(), "{document}: {link}");
            }
        }
    }
}
