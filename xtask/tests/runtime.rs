//! The stand-in for the CUDA runtime, on the software device.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use xtask::project::{root, run};
use xtask::runtime::{libraries, RELEASES};
use xtask::stage::{stage, Profile};

/// Catches a library without the versions that programs ask for, kernels and errors that are none, state of
/// a context that outlives it, threads without a context, and structures that are longer than a program's.
#[test]
fn a_program_of_each_release_runs() {
    let stage = stage(Profile::Debug).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("runtime");
    for (release, library) in RELEASES.iter().zip(libraries(&stage.softcuda())) {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        run(compiler.arg(&program).arg(root().join("softcudart/tests/runtime.c")).arg(library))
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
        assert!(!said.contains("version information"), "{said}");
    }
}
