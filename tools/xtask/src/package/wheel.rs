//! The wheel of the Python package: its name is right, and a user needs nothing else.

use std::path::{Path, PathBuf};

use super::{clean, outputs, quietly};
use crate::error::{Error, Result, While};
use crate::files::{folder, read, write};
use crate::project::{line, root, target_directory};
use crate::python::interpreter;

/// Fails if mypy finds an error in the package, whose types it is to use.
pub(super) fn is_typed(tools: &Path, work: &Path) -> Result<()> {
    let mut command = clean(interpreter());
    command.args(["-m", "mypy", "--strict", "--python-version", "3.10", "--cache-dir"]);
    command.arg(work.join("mypy")).current_dir(root().join("python"));
    quietly(command.env("PYTHONPATH", tools)).map(drop)
}

/// Fails if the registry would refuse the wheel, or its types are not those of the modules as they run.
pub(super) fn is_accepted(tools: &Path, wheel: &Path) -> Result<()> {
    let mut command = clean(interpreter());
    command.args(["-m", "twine", "check", "--strict"]).arg(wheel).env("PYTHONPATH", tools);
    quietly(&mut command)?;
    let own = root().join("python");
    // PyTorch is a stand-in.
    let path = std::env::join_paths([tools, &own, &own.join("tests/standin")])
        .map_err(|error| Error::new(error.to_string()))?;
    let mut command = clean(interpreter());
    command.args(["-m", "mypy.stubtest", "veloc", "--concise", "--allowlist", "stubtest.txt"]);
    command.args(["--mypy-config-file", "pyproject.toml"]).current_dir(&own);
    quietly(command.env("PYTHONPATH", path)).map(drop)
}

/// Builds the wheel into `<target>/wheels`, in place of older ones.
pub(super) fn build(tools: &Path, work: &Path) -> Result<PathBuf> {
    let target = target_directory()?;
    let made = build_from(root(), tools, work, &target)?;
    let wheels = target.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    folder(&wheels)?;
    let wheel = wheels.join(made.file_name().unwrap_or_default());
    let what = || format!("copying {} to {}", made.display(), wheels.display());
    std::fs::copy(&made, &wheel).when(what)?;
    println!("{}", wheel.display());
    Ok(wheel)
}

/// Builds the wheel from these sources into `work/wheel`; cargo builds in `target`. Fails if its name promises
/// systems whose C library is too old for it, or leaves out systems on which it runs.
pub(crate) fn build_from(
    sources: &Path,
    tools: &Path,
    work: &Path,
    target: &Path,
) -> Result<PathBuf> {
    let made = work.join("wheel");
    let mut command = clean(interpreter());
    command.args(["-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]);
    command.arg("--wheel-dir").arg(&made).arg(sources.join("python"));
    quietly(command.env("PYTHONPATH", tools).env("CARGO_TARGET_DIR", target))?;
    let made = only_file(&made)?;
    let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let tag = name.strip_suffix(".whl").and_then(|name| name.split('-').nth(4)).unwrap_or("");
    let named = format!("veloc-{}-py3-none-{tag}.whl", env!("CARGO_PKG_VERSION"));
    if name != named || !tag.starts_with("manylinux_") {
        return Err(Error::new(format!("the wheel is called {name}")));
    }
    let mut command = clean(interpreter());
    command.args(["-m", "auditwheel", "show"]).arg(&made).env("PYTHONPATH", tools);
    let said = quietly(&mut command)?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let wanted = format!("platform tag: \"{tag}\".");
    if !words.join(" ").contains(&wanted) {
        return Err(Error::new(format!("{name}: auditwheel does not say {wanted}\n{said}")));
    }
    Ok(made)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let what = || format!("reading {}", folder.display());
    let files = std::fs::read_dir(folder).when(what)?.collect::<std::io::Result<Vec<_>>>();
    match &files.when(what)?[..] {
        [file] => Ok(file.path()),
        files => {
            Err(Error::new(format!("{}: {} files instead of one", folder.display(), files.len())))
        }
    }
}

/// Installs the wheel into a folder for modules.
pub(super) fn install(wheel: &Path, site: &Path) -> Result<()> {
    let mut command = clean(interpreter());
    command.args([
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--root-user-action",
        "ignore",
    ]);
    quietly(command.arg("--target").arg(site).arg(wheel)).map(drop)
}

/// Installs the wheel into a new environment with nothing else on the path, and runs the examples
/// of the guide and of the README for Python, and the program `veloc` there. NumPy is the system's.
pub(crate) fn works_where_nothing_else_is(wheel: &Path, work: &Path) -> Result<()> {
    let fresh = work.join("fresh");
    let mut command = clean(interpreter());
    command.args(["-m", "venv", "--without-pip", "--system-site-packages"]);
    quietly(command.arg(&fresh))?;
    let (bin, python) = (fresh.join("bin"), fresh.join("bin/python"));
    // The system's pip, in that environment.
    let mut command = clean(&python);
    command.args(["-m", "pip", "install", "--no-deps", "--no-index"]);
    quietly(command.arg(wheel).env("PATH", &bin))?;
    let home = work.join("fresh-home");
    folder(&home)?;
    let run = |arguments: &[&str]| -> Result<String> {
        let mut command = clean(&python);
        command.args(arguments).env("PATH", &bin).current_dir(&home);
        println!("$ {}", line(&command));
        // The library would print here that it does not find its backend.
        match outputs(&mut command)? {
            (said, errors) if errors.is_empty() => Ok(said),
            (_, errors) => Err(Error::new(format!("{} says\n{errors}", line(&command)))),
        }
    };
    for (readme, first, last) in
        [("docs/guide/python.md", "99.0", "0.0"), ("python/README.md", "100.0", "100.0")]
    {
        let text = read(&root().join(readme))?;
        let program = text.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
        let Some((program, _)) = program else {
            return Err(Error::new(format!("{readme} has no program in Python")));
        };
        write(&home.join("program.py"), program)?;
        let said = run(&["-W", "error", "program.py"])?;
        if said.lines().next() != Some(first) || said.lines().last() != Some(last) {
            return Err(Error::new(format!("the program of {readme} printed\n{said}")));
        }
    }
    for (arguments, wanted) in [
        (&["-m", "veloc", "--version"][..], env!("CARGO_PKG_VERSION")),
        (&["-m", "veloc", "ls", "--scratch", "checkpoints"], "forward"),
        (&["-m", "veloc", "doctor"], "_native/veloc-backend"),
    ] {
        let said = run(arguments)?;
        if !said.contains(wanted) {
            return Err(Error::new(format!(
                "{} does not say {wanted}\n{said}",
                arguments.join(" ")
            )));
        }
    }
    Ok(())
}
