//! The programs in `packaging/consumers/`, built with the installed package and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mpi::MpiInstallation;
use super::{clean, outputs, quietly, Installed};
use crate::error::{Error, Result, While};
use crate::files::{copy_folder, folder, write};
use crate::project::{line, root};
use crate::python::interpreter;
use crate::said::of_a_slow_start;

/// Builds programs by `find_package`. They find the library by the path that CMake leaves in them.
pub(super) fn with_cmake(
    package: &Installed,
    work: &Path,
    languages: &str,
    mpi: Option<MpiInstallation>,
) -> Result<()> {
    let (set, over) = (languages.replace(';', "-"), mpi.map_or("alone", |mpi| mpi.name));
    let build = work.join(format!("cmake-{set}-{over}"));
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources()).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", package.prefix.display()));
    configure.arg(format!("-DLANGUAGES={languages}"));
    if let Some(mpi) = mpi {
        configure.arg("-DWITH_MPI=ON");
        for (language, compiler) in [("C", "mpicc"), ("CXX", "mpicxx"), ("Fortran", "mpifort")] {
            configure.arg(format!("-DMPI_{language}_COMPILER={}", mpi.command(compiler)));
        }
    }
    quietly(&mut configure)?;
    quietly(Command::new("cmake").arg("--build").arg(&build))?;
    let mut programs = vec!["save-c"];
    if languages.contains("CXX") {
        programs.extend(["save-cxx", "save-client", "save-prototype"]);
    }
    if languages.contains("Fortran") {
        programs.extend(["save-fortran", "save-2003"]);
        programs.extend(mpi.map(|_| "save-f08"));
    }
    if mpi.is_some() {
        programs.extend(["parts-c", "parts-fortran"]);
    }
    programs.iter().try_for_each(|program| run(work, &build.join(program), mpi, None))?;
    let prefix = build.join("installed");
    quietly(Command::new("cmake").arg("--install").arg(&build).arg("--prefix").arg(&prefix))?;
    run(work, &prefix.join("bin/save-c"), mpi, None)
}

/// What the example `forward` prints, in each language.
pub(crate) const FORWARD: &str = "sum 10100\n";

/// The examples installed in `prefix`, built and run as their README says; those in Python if a library is named
/// for them.
pub(crate) fn examples(prefix: &Path, work: &Path, library: Option<&Path>) -> Result<()> {
    let folder = work.join("examples");
    copy_folder(&prefix.join("share/veloc/examples"), &folder)?;
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&folder).arg("-B").arg(folder.join("build"));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    quietly(&mut configure)?;
    quietly(Command::new("cmake").arg("--build").arg(folder.join("build")))?;
    let mut examples: Vec<(String, &str)> = Vec::new();
    for (name, wanted) in [
        ("forward-c", FORWARD),
        ("forward-cxx", FORWARD),
        ("forward-fortran", FORWARD),
        ("arrays", "x[0] = 2.995219465875261\n"),
    ] {
        let program = folder.join("build").join(name);
        if program.exists() || name != "forward-fortran" {
            examples.push((program.display().to_string(), wanted));
        }
    }
    if library.is_some() {
        examples.push(("forward.py".to_owned(), FORWARD));
        examples.push(("arrays.py".to_owned(), "x[0] = 2.995219465875\n"));
    }
    for (program, wanted) in examples {
        let mut command = match library.filter(|_| program.ends_with(".py")) {
            Some(library) => {
                let mut command = clean(interpreter());
                // As if the wheel was installed.
                command.arg(&program).env("PYTHONPATH", root().join("python"));
                command.env("VELOC_LIBRARY", library);
                command
            }
            None => clean(&program),
        };
        let said = quietly(command.current_dir(&folder))?;
        if said != wanted {
            return Err(Error::new(format!("{program} printed\n{said}")));
        }
    }
    Ok(())
}

/// The examples over MPI, built as their READMEs say.
pub(super) fn over_mpi(package: &Installed, work: &Path, mpi: MpiInstallation) -> Result<()> {
    for (example, programs) in [("heat", &["heat"][..]), ("plate", &["plate", "plate-fortran"])] {
        let build = work.join(format!("{example}-{}", mpi.name));
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(root().join("examples").join(example)).arg("-B").arg(&build);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", package.prefix.display()));
        configure.arg(format!("-DMPI_Fortran_COMPILER={}", mpi.command("mpifort")));
        configure.arg(format!("-DMPI_C_COMPILER={}", mpi.command("mpicc")));
        quietly(&mut configure)?;
        quietly(Command::new("cmake").arg("--build").arg(&build))?;
        let (config, scratch) = (build.join("own.cfg"), build.join("scratch"));
        write(&config, &format!("mode = async\nscratch = {}\n", scratch.display()))?;
        for program in programs {
            let mut command = mpi.starter(&build.join(program));
            let stdout = quietly(command.arg(&config).current_dir(&build))?;
            if !stdout.ends_with("done\n") {
                return Err(Error::new(format!("{} printed\n{stdout}", line(&command))));
            }
        }
    }
    Ok(())
}

/// Builds programs by pkg-config, as a Makefile would. They find the library by the path that the
/// guide puts into them.
pub(super) fn with_pkg_config(package: &Installed, work: &Path, fortran: bool) -> Result<()> {
    let folder = new_folder(work, "pkg-config")?;
    pkg_config(package, &["--exists", "veloc >= 1.8 veloc < 2"])?;
    for (compiler, source) in
        [("cc", "save.c"), ("c++", "save.cpp"), ("c++", "client.cpp"), ("c++", "prototype.cpp")]
    {
        let program = folder.join(source.replace('.', "-"));
        let mut command = Command::new(compiler);
        command.arg(sources().join(source)).arg("-o").arg(&program);
        command.args(pkg_config(package, &["--cflags", "--libs", "veloc"])?);
        quietly(command.arg(path_in_program(package, "veloc")?))?;
        run(work, &program, None, None)?;
    }

    if !fortran {
        return Ok(());
    }
    let module = pkg_config(package, &["--variable=fortrandir", "veloc"])?.concat();
    let descriptor = folder.join("descriptor.o");
    let mut command = Command::new("cc");
    quietly(command.arg("-c").arg(format!("{module}/descriptor.c")).arg("-o").arg(&descriptor))?;
    for (name, flags, modules) in [
        ("save-fortran", &[][..], ["veloc", "veloc_schedules"]),
        ("save-2003", &["-std=f2008", "-DWITH_2003"], ["veloc_2003", "veloc_schedules"]),
    ] {
        let program = folder.join(name);
        let mut command = Command::new("gfortran");
        command.args(flags).arg("-J").arg(&folder);
        command.args(modules.map(|name| format!("{module}/{name}.f90")));
        command.arg(sources().join("save.F90")).arg(&descriptor).arg("-o").arg(&program);
        command.args(pkg_config(package, &["--libs", "veloc"])?);
        quietly(command.arg(path_in_program(package, "veloc")?))?;
        run(work, &program, None, None)?;
    }
    Ok(())
}

/// The option of the guide by which a program finds a library at run time.
fn path_in_program(package: &Installed, library: &str) -> Result<String> {
    let libdir = pkg_config(package, &["--variable=libdir", library])?.concat();
    Ok(format!("-Wl,-rpath,{libdir}"))
}

/// Builds programs by pkg-config, with the compiler of an MPI.
pub(super) fn with_pkg_config_and_mpi(
    package: &Installed,
    work: &Path,
    mpi: MpiInstallation,
) -> Result<()> {
    let folder = new_folder(work, &format!("pkg-config-{}", mpi.name))?;
    let module = pkg_config(package, &["--variable=fortrandir", "veloc-mpi"])?.concat();
    let module = format!("{module}/veloc_parts.f90");
    let of_module = ["-J", &folder.to_string_lossy(), &module];
    for (compiler, before, source, library) in [
        ("mpicc", &["-DWITH_MPI"][..], "save.c", "veloc"),
        ("mpicc", &[], "parts.c", "veloc-mpi"),
        ("mpifort", &of_module, "parts.F90", "veloc-mpi"),
    ] {
        let program = folder.join(source.replace('.', "-"));
        let mut command = Command::new(mpi.command(compiler));
        command.args(before).arg(sources().join(source)).arg("-o").arg(&program);
        command.args(pkg_config(package, &["--cflags", "--libs", library])?);
        quietly(command.arg(path_in_program(package, library)?))?;
        run(work, &program, Some(mpi), None)?;
    }
    Ok(())
}

/// Runs a program that was linked when VELOC still had two libraries.
pub(super) fn linked_to_two(package: &Installed, work: &Path) -> Result<()> {
    let folder = new_folder(work, "two")?;
    let (library, program) = (folder.join("libveloc-modules.so"), folder.join("save"));
    write(&folder.join("empty.c"), "")?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-Wl,-soname,libveloc-modules.so", "-o"]).arg(&library);
    quietly(command.arg(folder.join("empty.c")))?;
    let mut command = Command::new("cc");
    command.arg(sources().join("save.c")).arg("-o").arg(&program);
    command.args(["-Wl,--no-as-needed"]).arg(&library);
    quietly(command.args(pkg_config(package, &["--cflags", "--libs", "veloc"])?))?;
    run(work, &program, None, Some(package))
}

fn sources() -> PathBuf {
    root().join("packaging/consumers")
}

fn new_folder(work: &Path, name: &str) -> Result<PathBuf> {
    let new = work.join(name);
    folder(&new)?;
    Ok(new)
}

fn pkg_config(package: &Installed, arguments: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new("pkg-config");
    let files = package.prefix.join(package.libdir).join("pkgconfig");
    let text = quietly(command.args(arguments).env("PKG_CONFIG_PATH", files))?;
    Ok(text.split_whitespace().map(String::from).collect())
}

/// Runs a program with a job of its own. It finds the library by itself, or by the path of `told`.
fn run(
    work: &Path,
    program: &Path,
    mpi: Option<MpiInstallation>,
    told: Option<&Installed>,
) -> Result<()> {
    let job = new_folder(work, "job")?;
    let (config, scratch) = (job.join("veloc.cfg"), job.join("scratch"));
    write(&config, &format!("mode = async\nscratch = {}\n", scratch.display()))?;
    let mut command = match mpi {
        Some(mpi) => mpi.starter(program),
        None => clean(program),
    };
    command.arg(config);
    if let Some(package) = told {
        command.env("LD_LIBRARY_PATH", package.prefix.join(package.libdir));
    }
    println!("$ {}", line(&command));
    let (stdout, stderr) = outputs(&mut command)?;
    // An MPI may print something about the machine. Without MPI, a program is silent: a warning of
    // the library means that it has not found its backend, unless the backend was only slow.
    let silent = stderr.lines().all(of_a_slow_start);
    if stdout != "done\n" || mpi.is_none() && !silent {
        return Err(Error::new(format!("{} printed\n{stdout}{stderr}", line(&command))));
    }
    fs::remove_dir_all(&job).when(|| format!("removing {}", job.display()))
}
