//! The stand-in for the CUDA runtime, on the software device.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use xtask::project::output;
use xtask::runtime::{self, libraries, RELEASES};
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

/// Catches what the program of this function finds.
#[test]
fn a_program_of_each_release_runs() {
    runtime::try_out(&stage(Profile::Debug).unwrap().softcuda()).unwrap();
}
