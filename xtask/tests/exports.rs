//! The shared library offers what the header declares, under the name that programs look for.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

use xtask::project::{output, root};
use xtask::stage::{stage, Profile};
use xtask::{files, header};

/// The functions that `veloc.h` declares.
fn declared() -> BTreeSet<String> {
    let headers = header::headers().unwrap();
    let text = &headers.iter().find(|header| header.path.ends_with("veloc.h")).unwrap().text;
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
    assert_eq!(exported, declared());
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
        stage.include().join("veloc.h"),
        stage.include().join("veloc/defs.h"),
        stage.softcuda().join("libcuda.so"),
        stage.softcuda().join("libcuda.so.1"),
    ] {
        assert!(file.is_file(), "{}", file.display());
    }
    let kept = files::read(&root().join("include/veloc.h")).unwrap();
    assert_eq!(files::read(&stage.include().join("veloc.h")).unwrap(), kept);
}
