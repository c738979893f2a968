//! The crates use each other as `docs/architecture.md` says.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use xtask::files::read;
use xtask::project::root;

/// The crates of the table, in its order.
fn table() -> Vec<String> {
    let text = read(&root().join("docs/architecture.md")).unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let names = cells.flat_map(|cell| cell.split([',', ' ', '`']));
    names.filter(|name| !name.is_empty()).map(String::from).collect()
}

/// The crates of the workspace that a crate is built with, without its tests.
fn dependencies(name: &str) -> Vec<String> {
    let text = read(&root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    let (_, after) = text.split_once("\n[dependencies]\n").unwrap_or_default();
    let section = after.split("\n[").next().unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().map(String::from);
    section.lines().filter_map(name).collect()
}

/// Catches a crate that uses a crate below it in the table, and a crate that the table lacks.
#[test]
fn a_crate_uses_those_above_it_alone() {
    let table = table();
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    for folder in folders {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(table.contains(&name), "{name} is in no row");
    }
    assert!(dependencies("engine").contains(&"levels".to_owned()));
    for (place, name) in table.iter().enumerate() {
        let below = &table[place..];
        let uses: Vec<_> = dependencies(name).into_iter().filter(|d| below.contains(d)).collect();
        assert!(uses.is_empty(), "{name} uses {uses:?}, which stand below it");
    }
}

/// Catches a crate that logs, and whose lines `VELOC_LOG` cannot ask for.
#[test]
fn the_log_knows_the_crates_that_write_to_it() {
    let known = read(&root().join("crates/os/src/logging.rs")).unwrap();
    let log = |name: &String| dependencies(name).iter().any(|used| used == "log");
    let unknown: Vec<String> = table()
        .into_iter()
        .filter(log)
        .filter(|name| !known.contains(&format!("\"{name}\",")))
        .collect();
    assert_eq!(unknown, Vec::<String>::new(), "not in CRATES of crates/os/src/logging.rs");
}
