//! A folder with everything that tests and measures the library on a machine that has an NVIDIA
//! driver, but neither Rust nor a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result, While};
use crate::files::{clear, copy, copy_folder, folder, link, read, write};
use crate::notices;
use crate::nvidia::compiler::{self, Compiler, Ptx};
use crate::nvidia::packages::TOOLKITS;
use crate::project::{output, root, run, target_directory};
use crate::stage::{build_program, stage, Profile};

/// The most that a bundle may take, in bytes.
const LARGEST: u64 = 60 << 20;

/// The project's documents that a bundle has beside those in `docs/`: their paths in the project
/// and in the bundle.
const DOCUMENTS: [(&str, &str); 7] = [
    ("gpu/README.md", "README.md"),
    ("README.md", "PROJECT.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    (notices::NAME, notices::NAME),
    ("crates/softcuda/README.md", "crates/softcuda/README.md"),
];

/// The oldest C library that everything in a bundle works with, as its README says.
const GLIBC: (u32, u32) = (2, 35);

/// The name of a file in a bundle that is being made: an interrupted bundle is replaced by the next
/// one.
const UNFINISHED: &str = "unfinished-bundle";

/// Makes the bundle at `out` (by default `<target>/gpu-bundle`), in place of an older bundle.
pub fn make(out: Option<PathBuf>) -> Result<PathBuf> {
    let out = match out {
        Some(out) => out,
        None => target_directory()?.join("gpu-bundle"),
    };
    clear(&out, &["run.sh", UNFINISHED], "bundle")?;
    let unfinished = out.join(UNFINISHED);
    write(&unfinished, "")?;
    let stage = stage(Profile::Release)?;
    for (package, program) in
        [("rtm", "rtm"), ("veloc-cli", "veloc"), ("veloc-bench", "veloc-bench")]
    {
        let built = build_program(package, program, Profile::Release)?;
        strip(&built, &out.join("bin").join(program), "--strip-all")?;
    }
    let backend = "bin/veloc-backend";
    strip(&stage.folder.join(backend), &out.join(backend), "--strip-all")?;
    strip(&stage.shared_library(), &out.join("lib/libveloc-client.so"), "--strip-unneeded")?;
    let device = "softcuda/libcuda.so.1";
    strip(&stage.folder.join(device), &out.join(device), "--strip-unneeded")?;
    link("libcuda.so.1", &out.join("softcuda/libcuda.so"))?;
    // The runtime of the compiler that makes the bundle's programs.
    let runtime = Path::new("softcuda").join(TOOLKITS[0].runtime);
    strip(&stage.folder.join(&runtime), &out.join(&runtime), "--strip-unneeded")?;
    copy_folder(&stage.include(), &out.join("include"))?;
    copy_folder(&root().join("gpu"), &out.join("gpu"))?;
    copy_folder(&root().join("capi-tests/programs"), &out.join("programs"))?;
    // They have no use for a device, and need an example and a library that the bundle lacks.
    for program in ["hager.c", "hdf5.c"] {
        fs::remove_file(out.join("programs").join(program))
            .when(|| format!("removing a program of {}", out.display()))?;
    }
    fs::rename(out.join("gpu/run.sh"), out.join("run.sh"))
        .when(|| format!("moving run.sh to {}", out.display()))?;
    fs::remove_file(out.join("gpu/README.md"))
        .when(|| format!("removing a file of {}", out.display()))?;

    documents(&out)?;

    for source in sources(&out.join("programs"))? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        compile(&out, &name, &[source])?;
    }
    let mut folders = vec!["bin", "lib", "softcuda"];
    match compiler::at_hand() {
        Ok(compiler) => {
            runtime_programs(&out, &compiler)?;
            folders.push("cuda");
        }
        Err(why) => println!("the programs of the CUDA runtime are not in the bundle: {why}"),
    }
    for folder in folders {
        needs_no_newer_library(&out.join(folder))?;
    }

    has_what_it_lists(&out)?;

    let bytes = size(&out)?;
    if bytes > LARGEST {
        return Err(Error::new(format!(
            "{} has {bytes} bytes; {LARGEST} are allowed",
            out.display()
        )));
    }
    fs::remove_file(&unfinished).when(|| format!("removing {}", unfinished.display()))?;
    Ok(out)
}

/// Copies the documents for readers, and the licences and notices that have to go with the
/// programs.
fn documents(out: &Path) -> Result<()> {
    for (from, to) in DOCUMENTS {
        copy(&root().join(from), &out.join(to))?;
    }
    match notices::of_rust()? {
        Some(file) => copy(&file, &out.join(notices::RUST_NAME))?,
        None => println!("this Rust toolchain has no notices of its standard library to bring"),
    }
    for example in ["hager", "heat"] {
        let example = Path::new("examples").join(example);
        copy_folder(&root().join(&example), &out.join(&example))?;
    }
    copy_folder(&root().join("python/examples"), &out.join("python/examples"))?;
    copy_folder(&root().join("docs"), &out.join("docs"))
}

/// Fails if the README lists, in the first column of its tables, a path that does not exist.
fn has_what_it_lists(out: &Path) -> Result<()> {
    let text = read(&out.join("README.md"))?;
    let (_, list) = text
        .split_once("## What is in it")
        .ok_or_else(|| Error::new("gpu/README.md: does not say what is in a bundle"))?;
    for path in list.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()) {
        if !out.join(path).exists() {
            return Err(Error::new(format!("{}: no {path}, which README lists", out.display())));
        }
    }
    Ok(())
}

/// Fails if a program or library in `folder` needs a newer C library than [`GLIBC`].
fn needs_no_newer_library(folder: &Path) -> Result<()> {
    let what = || format!("reading the folder {}", folder.display());
    for entry in fs::read_dir(folder).when(what)? {
        let entry = entry.when(what)?;
        if !entry.file_type().when(what)?.is_file()
            || entry.path().extension().is_some_and(|of| of == "md" || of == "txt")
        {
            continue;
        }
        let mut versions = Command::new("readelf");
        versions.args(["--version-info", "--wide"]).arg(entry.path());
        if let Some(newest) = newest_library(&output(&mut versions)?).filter(|need| *need > GLIBC) {
            return Err(Error::new(format!(
                "{}: needs glibc {}.{}; {}.{} is what a bundle is for",
                entry.path().display(),
                newest.0,
                newest.1,
                GLIBC.0,
                GLIBC.1
            )));
        }
    }
    Ok(())
}

/// The newest version of the C library that readelf names.
fn newest_library(versions: &str) -> Option<(u32, u32)> {
    let names = versions.split("GLIBC_").skip(1);
    let numbers = names.filter_map(|rest| {
        let mut parts = rest.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    numbers.max()
}

/// Copies a program or library without its debugging information.
fn strip(from: &Path, to: &Path, how: &str) -> Result<()> {
    if let Some(parent) = to.parent() {
        folder(parent)?;
    }
    run(Command::new("strip").arg(how).arg("-o").arg(to).arg(from))
}

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
        .args(["-std=c99", "-O2", "-s", "-pthread"])
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(out.join("include"))
        .args(sources)
        .arg("-o")
        .arg(out.join("bin").join(name))
        .arg("-L")
        .arg(out.join("lib"))
        .args(["-lveloc-client", "-ldl", "-lm", "-Wl,-rpath,$ORIGIN/../lib"]))
}

/// Compiles the programs of the CUDA runtime, and copies the runtime.
fn runtime_programs(out: &Path, compiler: &Compiler) -> Result<()> {
    for source in compiler::sources()? {
        let program = out.join("bin").join(source.file_stem().unwrap_or_default());
        let folders = (&*out.join("include"), &*out.join("lib"));
        let path = "$ORIGIN/../lib:$ORIGIN/../cuda";
        compiler.compile(&source, folders, path, Ptx::Plain, &program)?;
    }
    for file in [&compiler.runtime, &compiler.licence] {
        copy(file, &out.join("cuda").join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
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
    use crate::links::linked_files;

    #[test]
    fn what_the_list_has_and_the_bundle_has_not_is_named() {
        let out = tempfile::tempdir().unwrap();
        let list = "| `not/there` | above |\n## What is in it\n| `run.sh` | is |\n| `bin` | is |\n";
        write(&out.path().join("README.md"), list).unwrap();
        write(&out.path().join("run.sh"), "").unwrap();
        let error = has_what_it_lists(out.path()).unwrap_err().to_string();
        assert!(error.contains("no bin,"), "{error}");
        folder(&out.path().join("bin")).unwrap();
        has_what_it_lists(out.path()).unwrap();
    }

    #[test]
    fn the_newest_library_is_found_among_all() {
        let text = "  0x0: Name: GLIBC_2.4  Flags: none\n Name: GLIBC_2.35  Name: GLIBC_2.3.4\n\
                    Name: GCC_3.0 Name: GLIBC_PRIVATE";
        assert_eq!(newest_library(text), Some((2, 35)));
        assert_eq!(newest_library("no version information"), None);
    }

    /// Catches a program in the bundle that is never run, and a line without a program.
    #[test]
    fn every_program_of_the_runtime_is_listed() {
        let list = read(&root().join("gpu/runtime.list")).unwrap();
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let mut listed: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).collect();
        listed.dedup();
        let sources = compiler::sources().unwrap();
        let names: Vec<_> =
            sources.iter().filter_map(|source| source.file_stem()?.to_str()).collect();
        listed.sort_unstable();
        assert_eq!(listed, names);
    }

    /// Catches a missing document that others point to.
    #[test]
    fn what_the_documents_point_to_is_in_the_bundle() {
        let out = tempfile::tempdir().unwrap();
        documents(out.path()).unwrap();
        // Made by other steps.
        folder(&out.path().join("include")).unwrap();
        write(&out.path().join("include/veloc.h"), "").unwrap();
        write(&out.path().join("run.sh"), "").unwrap();
        for (document, at_least) in
            [("README.md", 0), ("PROJECT.md", 6), ("docs/bench.md", 1), ("docs/guide/README.md", 2)]
        {
            let text = read(&out.path().join(document)).unwrap();
            let local = linked_files(&text);
            assert!(local.len() >= at_least, "{document}: {local:?}");
            let folder = out.path().join(document);
            for link in local {
                assert!(folder.with_file_name(link).exists(), "{document}: {link}");
            }
        }
    }
}
