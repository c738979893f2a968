//! The stand-in for the CUDA runtime, on the software device.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use xtask::project::{output, root, run};
use xtask::runtime::{libraries, RELEASES};
use xtask::stage::{stage, Profile};

/// Catches a function without the version that programs of nvcc ask for: the loader would warn of
/// each.
#[test]
fn its_functions_have_the_runtime_s_versions() {
    let stage = stage(Profile::Debug).unwrap();
    for (release, library) in RELEASES.iter().zip(libraries(&stage.softcuda())) {
        let listed =
            output(Command::new("nm").args(["-D", "--defined-only"]).arg(library)).unwrap();
        let version = format!("libcudart.so.{release}");
        let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
        assert!(names.contains(&format!("cudaMalloc@@{version}").as_str()), "{listed}");
        let known = |name: &&&str| {
            let (name, of) = name.split_once("@@").unwrap_or((name, &version));
            let ours = name == version || name == "softcudart_is_software";
            of == version && (ours || name.starts_with("cuda") || name.starts_with("__cuda"))
        };
        assert_eq!(names.iter().filter(known).count(), names.len(), "{listed}");
    }
}

/// Catches kernels and errors that do not exist, state of a context that outlives it, threads
/// without a context, and structures that are longer than a program's.
#[test]
fn a_program_of_each_release_runs() {
    let stage = stage(Profile::Debug).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("runtime");
    for (release, library) in RELEASES.iter().zip(libraries(&stage.softcuda())) {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        run(compiler
            .arg(&program)
            .arg(root().join("crates/softcudart/tests/runtime.c"))
            .arg(library))
        .unwrap();
        let mut command = Command::new(&program);
        command.arg(release).env("LD_LIBRARY_PATH", stage.softcuda()).env("SOFTCUDA_DEVICES", "2");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.ends_with("done\n"), "{printed}{said}");
        let refused = ["compile with nvcc --no-compress", "there is no PTX"];
        assert!(refused.iter().all(|why| said.contains(why)), "{said}");
        assert_eq!(said.matches("softcudart: ").count(), refused.len(), "{said}");
    }
}
