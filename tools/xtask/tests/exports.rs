//! The shared library exports the functions of the headers, under the name that programs look for.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

use xtask::project::{output, root};
use xtask::stage::{stage, Profile};
use xtask::{files, header, runtime};

/// The functions that the Fortran module calls and C programs have no use for: those of its
/// interfaces that are in no header.
const FORTRAN: [&str; 7] = [
    "VELOC_Init_fortran",
    "VELOC_Init_options_fortran",
    "VELOC_Fortran_protect",
    "VELOC_Fortran_protect_list",
    "VELOC_Fortran_adjoint_protect",
    "VELOC_Fortran_refuse",
    "VELOC_Fortran_refuse_number",
];

/// The function that `libveloc-mpi.so` calls.
const MESSAGES: &str = "VELOC_Message_scratch";

/// The functions that the C++ layer calls, which has a header of its own for them.
fn of_the_cxx_layer() -> BTreeSet<String> {
    let text = files::read(&root().join("cpp/src/abi.h")).unwrap();
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = names.filter(|name| name.starts_with("VELOC_Cxx_"));
    // Types are not functions.
    let is_function = |name: &&str| text.contains(&format!("{name}("));
    names.filter(is_function).map(String::from).collect()
}

/// The functions that `veloc.h` declares, and the headers that it includes.
fn declared() -> BTreeSet<String> {
    let headers = header::headers().unwrap();
    let of_this_library = headers.iter().filter(|header| !header.path.ends_with("veloc-mpi.h"));
    let text: String = of_this_library.map(|header| header.text.as_str()).collect();
    let declarations = text.lines().filter(|line| !line.starts_with([' ', '/', '#']));
    let names =
        declarations.filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back());
    names.filter(|name| name.starts_with("VELOC_")).map(String::from).collect()
}

#[test]
fn it_exports_the_header_s_functions_and_nothing_else() {
    let library = stage(Profile::Debug).unwrap().shared_library();
    let text = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().last()).map(String::from).collect();
    assert!(exported.contains("VELOC_Checkpoint"), "{exported:?}");
    let internal = FORTRAN.map(String::from).into_iter().chain([MESSAGES.to_owned()]);
    let expected = declared().into_iter().chain(internal).chain(of_the_cxx_layer()).collect();
    assert_eq!(exported, expected);
}

/// Catches a function that a module calls and the library lacks: the module's users would find out
/// when they link.
#[test]
fn the_fortran_modules_call_what_there_is() {
    let sources = ["veloc_2003.f90", "veloc.f90", "veloc_schedules.f90", "veloc_arrays.f90"];
    let read = |name: &str| files::read(&root().join("fortran").join(name)).unwrap();
    let source = sources.map(read).concat();
    let bound: BTreeSet<String> = source
        .split("name='")
        .skip(1)
        .filter_map(|behind| behind.split_once('\''))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("VELOC_"))
        .collect();
    let mut known = declared();
    known.extend(FORTRAN.map(String::from));
    let missing: Vec<&String> = bound.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(FORTRAN.iter().all(|name| bound.contains(*name)), "{bound:?}");
}

/// Catches a function that the module of parts calls and the library that logs messages lacks, or
/// the reverse.
#[test]
fn the_module_of_parts_calls_what_there_is() {
    let library = stage(Profile::Debug).unwrap().message_log();
    let text = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)).unwrap();
    let exported: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let source = files::read(&root().join("fortran/veloc_parts.f90")).unwrap();
    let bound: BTreeSet<&str> = source
        .split("name='")
        .filter_map(|behind| behind.split_once('\''))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("VELOC_"))
        .collect();
    // Functions that the checkpoint library calls are not for programs.
    let is_offered = |name: &&&str| name.starts_with("VELOC_") && **name != "VELOC_Part_log";
    let offered = exported.iter().filter(is_offered).copied().collect();
    assert_eq!(bound, offered);
}

#[test]
fn its_name_is_upstream_s() {
    let library = stage(Profile::Debug).unwrap().shared_library();
    let text = output(Command::new("readelf").arg("-d").arg(&library)).unwrap();
    assert!(text.contains("Library soname: [libveloc-client.so]"), "{text}");
}

#[test]
fn the_stage_holds_what_a_program_needs() {
    let stage = stage(Profile::Debug).unwrap();
    for file in [
        stage.static_library(),
        stage.bin().join("veloc-backend"),
        stage.fortran().join("veloc.f90"),
        stage.softcuda().join("libcuda.so"),
        stage.softcuda().join("libcuda.so.1"),
    ]
    .into_iter()
    .chain(runtime::libraries(&stage.softcuda()))
    {
        assert!(file.is_file(), "{}", file.display());
    }
    for header in header::headers().unwrap() {
        let below = header.path.strip_prefix(root().join("include")).unwrap();
        assert_eq!(files::read(&stage.include().join(below)).unwrap(), header.text);
    }
}
