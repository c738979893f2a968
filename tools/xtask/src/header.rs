//! `include/veloc.h` and the headers that it includes (`veloc/defs.h`, `veloc/adjoint.h`,
//! `veloc/metrics.h`, `veloc/pmem.h`), made from `src/capi`, and `include/veloc-mpi.h`, made from
//! `crates/message-log/src/capi.rs`.
//!
//! cbindgen translates; `header/text.rs` corrects what cbindgen cannot express: `VELOC_Init` and
//! `VELOC_Init_options` take an `MPI_Comm`, and only where there is MPI.

mod text;

use std::path::{Path, PathBuf};

use cbindgen::{Bindings, Config, ItemType};

use crate::error::{Error, Result, While};
use crate::files::{read, write};
use crate::project::root;

/// A header, as the sources have it.
#[derive(Debug)]
pub struct GeneratedHeader {
    /// The path of the header.
    pub path: PathBuf,
    /// The content of the header.
    pub text: String,
}

/// The modules of `veloc.h`, in the order in which a program meets their functions.
const CALLS: [&str; 6] = ["job", "regions", "checkpoint", "restart", "prefetch", "errors"];

/// The modules of `veloc/adjoint.h`, those that most programs need first.
const ADJOINT: [&str; 4] = ["adjoint", "schedule", "schedule_settings", "revolve"];

const METRICS: &str = "metrics";

/// The modules of `veloc/pmem.h`.
const PMEM: [&str; 3] = ["pmem", "pmem_iterations", "sums"];

const CONSTANTS: &str = "constants";

/// The declarations of `libveloc-mpi.so` for C, beside MPI's own functions.
const PARTS: &str = "crates/message-log/src/capi.rs";

/// Modules without declarations for C.
const INTERNAL: [&str; 5] = ["boundary", "cxx", "fortran", "messages", "mod"];

/// Makes the headers.
pub fn headers() -> Result<Vec<GeneratedHeader>> {
    all_modules_are_known()?;
    let constants = |config: &mut Config| {
        config.include_guard = Some("VELOC_DEFS_H".into());
        config.cpp_compat = false;
        config.export.item_types = vec![ItemType::Constants, ItemType::Enums];
        // No function has it as a parameter: C passes what it gets, and C++ has overloads.
        config.export.include = vec!["VELOC_Flags".into()];
    };
    let calls = |config: &mut Config| {
        config.include_guard = Some("VELOC_H".into());
        config.after_includes = Some(text::INCLUDES.into());
        config.export.item_types = vec![ItemType::Functions, ItemType::Structs];
    };
    let beside = |guard: &'static str| {
        move |config: &mut Config| {
            config.include_guard = Some(guard.into());
            config.after_includes = Some(text::BESIDE_INCLUDES.into());
            config.export.item_types = vec![
                ItemType::Constants,
                ItemType::Functions,
                ItemType::Structs,
                ItemType::OpaqueItems,
            ];
        }
    };
    let parts = |config: &mut Config| {
        config.header = Some(text::MPI_HEADER.into());
        config.include_guard = Some("VELOC_MPI_H".into());
        config.after_includes = Some(text::MPI_INCLUDES.into());
        config.export.item_types =
            vec![ItemType::Constants, ItemType::Functions, ItemType::Structs];
    };
    let include = root().join("include");
    let capi = |modules: &[&str]| -> Vec<PathBuf> {
        modules.iter().map(|module| sources().join(format!("{module}.rs"))).collect()
    };
    Ok(vec![
        GeneratedHeader {
            path: include.join("veloc/defs.h"),
            text: text::defs(&translate(&capi(&[CONSTANTS]), constants)?),
        },
        GeneratedHeader {
            path: include.join("veloc.h"),
            text: text::veloc(&translate(&capi(&CALLS), calls)?)?,
        },
        GeneratedHeader {
            path: include.join("veloc/adjoint.h"),
            text: text::beside(&translate(&capi(&ADJOINT), beside("VELOC_ADJOINT_H"))?),
        },
        GeneratedHeader {
            path: include.join("veloc/metrics.h"),
            text: text::beside(&translate(&capi(&[METRICS]), beside("VELOC_METRICS_H"))?),
        },
        GeneratedHeader {
            path: include.join("veloc/pmem.h"),
            text: text::beside(&translate(&capi(&PMEM), beside("VELOC_PMEM_H"))?),
        },
        GeneratedHeader {
            path: include.join("veloc-mpi.h"),
            text: text::beside(&translate(&[root().join(PARTS)], parts)?),
        },
    ])
}

/// Writes the headers.
pub fn update() -> Result<()> {
    headers()?.iter().try_for_each(|header| write(&header.path, &header.text))
}

/// Fails, with the file and the first line that differs, if a header does not match `src/capi`.
pub fn check() -> Result<()> {
    for GeneratedHeader { path, text } in headers()? {
        let kept = read(&path)?;
        if kept == text {
            continue;
        }
        let line = kept.lines().zip(text.lines()).take_while(|(kept, text)| kept == text).count();
        return Err(Error::new(format!(
            "{} is not what its sources say, from line {} on (`{}` should be `{}`); run cargo xtask \
             header",
            path.display(),
            line + 1,
            kept.lines().nth(line).unwrap_or(""),
            text.lines().nth(line).unwrap_or("")
        )));
    }
    Ok(())
}

/// cbindgen's translation of these files. `own` makes the settings that the headers do not share.
fn translate(sources: &[PathBuf], own: impl FnOnce(&mut Config)) -> Result<String> {
    let path = root().join("cbindgen.toml");
    let mut config = Config::from_file(&path).when(|| format!("reading {}", path.display()))?;
    config.header = Some(text::HEADER.into());
    own(&mut config);
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
    let bindings: Bindings = builder.generate().when(|| {
        let sources: Vec<_> = sources.iter().map(|source| source.display().to_string()).collect();
        format!("translating {}", sources.join(", "))
    })?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).when(|| "reading cbindgen's text".into())
}

/// Fails if a module is in none of the lists above.
fn all_modules_are_known() -> Result<()> {
    let folder = sources();
    let what = || format!("reading the folder {}", folder.display());
    for entry in std::fs::read_dir(&folder).when(what)? {
        let path = entry.when(what)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lists = [&CALLS[..], &ADJOINT, &PMEM, &[METRICS, CONSTANTS], &INTERNAL];
        if !lists.iter().any(|list| list.contains(&name.as_str())) {
            return Err(Error::new(format!(
                "{}: tools/xtask/src/header.rs does not know this module",
                path.display()
            )));
        }
    }
    Ok(())
}

fn sources() -> PathBuf {
    Path::join(root(), "src/capi")
}
