//! The programs that are measured: compiled from the sources that this program carries, and run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context as _, Result};
use os::interrupt::ends_with_this;

use crate::child;

/// The sources, and where they are below the folder that they are compiled in.
const SOURCES: [(&str, &str); 11] = [
    ("persistent.h", include_str!("../../../../../examples/persistent.h")),
    ("cg/cg.c", include_str!("../../../../../examples/cg/cg.c")),
    ("cg/solver.h", include_str!("../../../../../examples/cg/solver.h")),
    ("cg/solver.c", include_str!("../../../../../examples/cg/solver.c")),
    ("cg/matrix.h", include_str!("../../../../../examples/cg/matrix.h")),
    ("cg/matrix.c", include_str!("../../../../../examples/cg/matrix.c")),
    ("abft/abft.c", include_str!("../../../../../examples/abft/abft.c")),
    ("transport/transport.c", include_str!("../../../../../examples/transport/transport.c")),
    ("cg/ways.c", include_str!("ways.c")),
    ("abft/turns.c", include_str!("turns_abft.c")),
    ("transport/turns.c", include_str!("turns_transport.c")),
];

/// A system that maps each file as one in persistent memory.
const DAX: &str = include_str!("../../../../../capi-tests/preload/dax.c");

/// Options for crashes: each access, and each copy, is seen.
const SEEN: [&str; 5] = [
    "-fsanitize=thread",
    "-fno-builtin-memcpy",
    "-fno-builtin-memset",
    "-fno-builtin-memmove",
    "-O2",
];

const VELOC: &str = "veloc";

/// Compiles and runs programs in the temporary folder of this process, which the bench removes.
pub(super) struct Programs {
    pub folder: PathBuf,
    include: PathBuf,
    lib: PathBuf,
    /// Where the program `veloc` may be.
    tools: [PathBuf; 2],
    /// What has files mapped as in persistent memory; none where they are.
    double: Option<PathBuf>,
}

/// Where the library and its headers are installed.
pub(super) fn prefix(given: Option<&Path>) -> Result<PathBuf> {
    let found = match given {
        Some(folder) => fs::canonicalize(folder).with_context(|| folder.display().to_string())?,
        None => {
            let own = fs::canonicalize(std::env::current_exe()?)?;
            own.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
        }
    };
    let header = found.join("include/veloc.h");
    ensure!(
        header.exists(),
        "there is no {}: --prefix says where the library is",
        header.display()
    );
    Ok(found)
}

/// The folder of the libraries of an installation.
fn libraries(prefix: &Path) -> Result<PathBuf> {
    let deep = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let all = [prefix.join("lib"), prefix.join("lib64")].into_iter();
    let mut all = all.chain(deep.map(|entry| entry.path()));
    all.find(|folder| folder.join("libveloc-client.so").exists())
        .with_context(|| format!("there is no libveloc-client.so below {}", prefix.display()))
}

impl Programs {
    pub(super) fn new(prefix: &Path) -> Result<Programs> {
        let (include, lib) = (prefix.join("include"), libraries(prefix)?);
        let folder = std::env::temp_dir();
        let tools =
            [std::env::current_exe()?.with_file_name(VELOC), prefix.join("bin").join(VELOC)];
        let mut programs = Programs { folder, include, lib, tools, double: None };
        for (name, text) in SOURCES.into_iter().chain([("dax.c", DAX)]) {
            let path = programs.folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&programs.folder))?;
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        fs::create_dir_all(programs.path(""))?;
        programs.ways(false)?;
        let files = programs.folder.display().to_string();
        if !programs.is_persistent(&files)? {
            let double = programs.folder.join("dax.so");
            compile(programs.compiler().args(["-shared", "-fPIC", "dax.c", "-o"]).arg(&double))?;
            programs.double = Some(double);
            ensure!(
                programs.is_persistent(&files)?,
                "files in {files} cannot be mapped as in persistent memory: the processor has no call for it"
            );
        }
        Ok(programs)
    }

    fn is_persistent(&self, folder: &str) -> Result<bool> {
        let ended = self.run("ways", &["domain", folder])?;
        Ok(ended.0.lines().any(|line| line == "power\t1"))
    }

    /// What has to stand beside each time.
    pub(super) fn note(&self) -> &'static str {
        if self.double.is_some() {
            ", not persistent memory"
        } else {
            ""
        }
    }

    fn compiler(&self) -> Command {
        let chosen = std::env::var_os("CC").filter(|compiler| !compiler.is_empty());
        let mut command = Command::new(chosen.unwrap_or_else(|| "cc".into()));
        command.current_dir(&self.folder).args(["-std=gnu99", "-O3", "-I"]).arg(&self.include);
        command
    }

    /// A program of these sources, with these options before the libraries and these libraries.
    fn program(
        &self,
        name: &str,
        sources: &[&str],
        options: &[&str],
        libraries: &[&str],
    ) -> Result<()> {
        let mut command = self.compiler();
        command.args(options).args(sources).arg("-o").arg(self.path(name)).arg("-L").arg(&self.lib);
        command.arg(format!("-Wl,-rpath,{}", self.lib.display()));
        compile(command.args(libraries).args(["-lveloc-client", "-lm"]))
    }

    /// Where a program is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The program `ways`; with libpmemobj, or an error.
    pub(super) fn ways(&self, with_pmemobj: bool) -> Result<()> {
        let sources = ["cg/ways.c", "cg/solver.c", "cg/matrix.c"];
        if with_pmemobj {
            return self.program("ways", &sources, &["-DWITH_PMEMOBJ"], &["-lpmemobj"]);
        }
        self.program("ways", &sources, &[], &[])
    }

    /// The program `cg`; for crashes, `cg-seen`.
    pub(super) fn cg(&self, seen: bool) -> Result<()> {
        let sources = ["cg/cg.c", "cg/solver.c", "cg/matrix.c"];
        if !seen {
            return self.program("cg-plain", &sources, &["-O2"], &[]);
        }
        // Linked without the option, which would bring the sanitizer's own runtime.
        let mut objects = Vec::new();
        for source in sources {
            let object = source.replace(".c", ".o");
            compile(self.compiler().args(SEEN).args(["-c", source, "-o", &object]))?;
            objects.push(object);
        }
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        self.program("cg-seen", &objects, &[], &["-lveloc-crash"])
    }

    /// The program `abft`; with OpenBLAS, `abft-blas`, or an error.
    pub(super) fn abft(&self, with_blas: bool) -> Result<()> {
        if with_blas {
            let options = ["-DWITH_BLAS", "-I/usr/include/openblas"];
            return self.program("abft-blas", &["abft/turns.c"], &options, &["-lopenblas"]);
        }
        self.program("abft", &["abft/turns.c"], &[], &[])
    }

    /// The program `transport`.
    pub(super) fn transport(&self) -> Result<()> {
        self.program("transport", &["transport/turns.c"], &[], &[])
    }

    /// Runs a program that was compiled here, to its end.
    pub(super) fn run(&self, name: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Printed> {
        let mut command = Command::new(self.path(name));
        command.args(arguments).current_dir(&self.folder);
        if let Some(double) = &self.double {
            // PMDK flushes by instructions where it is told that it may.
            command.env("LD_PRELOAD", double).env("PMEM_IS_PMEM_FORCE", "1");
        }
        // One processor for each: what is compared has the same.
        command.env("OPENBLAS_NUM_THREADS", "1").env("OMP_NUM_THREADS", "1");
        end(&mut command)
    }

    /// Runs the program `veloc`: the one beside this program, or the one that is installed.
    pub(super) fn veloc(&self, arguments: &[impl AsRef<OsStr>]) -> Result<Printed> {
        let [beside, installed] = &self.tools;
        let veloc = if beside.exists() { beside } else { installed };
        end(child::command_of(veloc, arguments).current_dir(&self.folder))
    }
}

/// What a program has printed.
pub(super) struct Printed(String);

impl Printed {
    /// The values of the lines "what, a tab, a number".
    pub(super) fn values(&self, what: &str) -> Vec<f64> {
        let lines = self.0.lines().filter_map(|line| line.split_once('\t'));
        lines
            .filter(|(name, _)| *name == what)
            .filter_map(|(_, value)| value.parse().ok())
            .collect()
    }
}

fn end(command: &mut Command) -> Result<Printed> {
    ends_with_this(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.get_program().display().to_string();
    let ended = command.output().with_context(|| name.clone())?;
    let [stdout, stderr] =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !ended.status.success() {
        bail!("{name} ended with {}:\n{stdout}{stderr}", ended.status);
    }
    Ok(Printed(stdout))
}

fn compile(command: &mut Command) -> Result<()> {
    end(command).context("compiling a program to measure").map(drop)
}
