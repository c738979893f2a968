//! The examples in the documentation work with the library.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use xtask::files;
use xtask::links::{headings, linked_places};
use xtask::project::{output, root};
use xtask::stage::{stage, Profile};

/// The block of this language in the README.
fn block(language: &str) -> String {
    let text = files::read(&root().join("README.md")).unwrap();
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_string()
}

#[test]
fn the_readme_s_example_compiles_and_runs() {
    let stage = stage(Profile::Debug).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    files::write(&source, &block("c")).unwrap();
    files::write(&folder.path().join("veloc.cfg"), &block("ini")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-DVELOC_NO_MPI", "-I"]);
    compiler.arg(stage.include()).arg(&source).arg("-o").arg(&program);
    compiler.arg("-L").arg(stage.lib()).arg("-lveloc-client");
    output(&mut compiler).unwrap();

    let mut run = Command::new(&program);
    run.current_dir(folder.path()).env("LD_LIBRARY_PATH", stage.lib());
    // The example's sizes are for another machine than one that runs tests.
    run.env("VELOC_HOST_CACHE_SIZE", "128M").env("VELOC_GPU_CACHE_SIZE", "0");
    let wanted: Vec<String> = (0..100).rev().map(|step| step.to_string()).collect();
    assert_eq!(output(&mut run).unwrap().lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn the_table_of_keys_is_the_library_s() {
    let text = files::read(&root().join("docs/configuration.md")).unwrap();
    let table = config::markdown();
    assert!(text.contains(table.trim()), "run cargo xtask docs");
}

/// Catches a test of a feature that CONTRIBUTING.md names, and that is not there.
#[test]
fn the_tests_of_each_feature_are_there() {
    let text = files::read(&root().join("CONTRIBUTING.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| for |"));
    let tests = rows.filter_map(|row| row.split(" | ").nth(2)).flat_map(|tests| {
        tests.split('`').skip(1).step_by(2).filter(|test| *test != "tests").collect::<Vec<_>>()
    });
    let is_there = |test: &str| {
        let named = format!("capi-tests/tests/capi/{test}.rs");
        test.starts_with("cargo ") || [test, &named].iter().any(|path| root().join(path).exists())
    };
    let (there, missing): (Vec<_>, Vec<_>) = tests.partition(|test| is_there(test));
    assert!(there.len() > 20 && missing.is_empty(), "{missing:?}");
}

/// Catches a link to a document, an example or a heading that does not exist, or has another name.
#[test]
fn every_link_leads_to_its_place() {
    let folders =
        ["docs", "docs/tutorials", "docs/guide", "docs/design"].map(|folder| root().join(folder));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let documents: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .chain(
            [
                "CHANGELOG.md",
                "CONTRIBUTING.md",
                "README.md",
                "SECURITY.md",
                "clients/README.md",
                "docs/results/README.md",
                "python/README.md",
                "tools/faults/README.md",
            ]
            .map(|name| root().join(name)),
        )
        .collect();
    assert!(documents.len() > 40, "{documents:?}");
    for document in documents {
        for (file, heading) in linked_places(&files::read(&document).unwrap()) {
            let target = match file {
                "" => document.clone(),
                file => document.with_file_name(file),
            };
            assert!(target.exists(), "{}: {file}", document.display());
            let is_there = heading.is_empty()
                || headings(&files::read(&target).unwrap()).iter().any(|name| name == heading);
            assert!(is_there, "{}: {file}#{heading}", document.display());
        }
    }
}
