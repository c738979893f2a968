//! The program as its users meet it: arguments in; exit code, output and files out.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A model of 96 x 64 points of 10 m: water, and three layers of rock.
fn write_model(folder: &Path) -> PathBuf {
    let layer = |iz: usize| [1500.0f32, 1900.0, 2300.0, 2800.0][iz / 16];
    let bytes: Vec<u8> = (0..96 * 64).flat_map(|i| layer(i % 64).to_le_bytes()).collect();
    let path = folder.join("model.vp");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn rtm(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtm")).args(words).current_dir(folder).output().unwrap()
}

fn with_model<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let model = ["--velocity", "model.vp", "--nx", "96", "--nz", "64", "--dx", "10"];
    [&model[..], &["--device", "host"], words].concat()
}

#[test]
fn a_run_through_the_library_equals_one_through_plain_memory() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    for extra in [&["--verify"][..], &["--verify", "--compress", "--refine", "2"]] {
        let words = with_model(&[extra, &["--json", "figures.json"]].concat());
        let out = rtm(folder.path(), &words);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains("images are bit-identical"), "{text}");
        assert!(text.contains("Overhead"), "{text}");
        let json = std::fs::read_to_string(folder.path().join("figures.json")).unwrap();
        let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(figures["verified"], true);
        let restores = figures["restart"]["count"].as_u64().unwrap();
        assert!(restores > 20, "only {restores} checkpoints");
        assert_eq!(figures["checkpoints"], restores);
        assert!(folder.path().join("rtm.png").exists());
    }
}

/// Catches states that are kept with other bits than were asked for, and images that the bound does not explain.
#[test]
fn the_image_is_as_exact_as_the_bits() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    let mut before = f64::INFINITY;
    for (bits, bound, least) in [("8", 0.02, 3.6), ("12", 1e-3, 2.4), ("16", 1e-4, 1.85)] {
        let text = bound.to_string();
        let words = ["--verify", "--json", "figures.json", "--bits", bits, "--bound", &text];
        let out = rtm(folder.path(), &with_model(&words));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let json = std::fs::read_to_string(folder.path().join("figures.json")).unwrap();
        let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
        let number = |name: &str| figures[name].as_f64().unwrap();
        let compressed = number("compressed_states");
        assert_eq!((number("uncompressed_states"), compressed), (0.0, number("checkpoints")));
        let ratio = number("state_bytes") * compressed / number("compressed_bytes");
        assert!(ratio > least, "{bits} bits: {ratio}");
        let difference = number("image_difference");
        println!("{bits} bits: {ratio:.2} times less, difference {difference:.1e}");
        assert!(0.0 < difference && difference < before.min(bound), "{bits} bits: {difference}");
        before = difference;
    }
}

/// Catches compressed memory that has no more room than it has bytes, or whose bytes are others: eight states have room in
/// the host cache, and seven beside them as they are.
#[test]
fn twenty_states_are_kept_in_room_for_fifteen() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    let config =
        "mode = async\nephemeral = true\nhost_cache_size = 800K\ncompressed_cache_size = 700K\n";
    std::fs::write(folder.path().join("small.cfg"), config).unwrap();
    let words = "--verify --refine 2 --steps 200 --interval 10 --config small.cfg";
    let words: Vec<&str> = words.split(' ').collect();
    let out = rtm(folder.path(), &with_model(&words));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("20 checkpoints") && text.contains("images are bit-identical"), "{text}");
}

#[test]
fn quiet_means_quiet() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    let out = rtm(folder.path(), &with_model(&["--quiet", "--steps", "60"]));
    assert!(out.status.success());
    assert!(out.stdout.is_empty());
}

#[test]
fn a_wrong_value_ends_with_2_and_its_name() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    for (words, said) in [
        (with_model(&["--dt", "0.1"]), "--dt 0.1"),
        (with_model(&["--source", "5000"]), "--source 5000"),
        (with_model(&["--output", "nowhere/a.png"]), "--output nowhere/a.png"),
        (vec!["--velocity", "none.vp", "--nx", "96", "--nz", "64", "--dx", "10"], "none.vp"),
        (vec!["--velocity", "model.vp", "--nx", "97", "--nz", "64", "--dx", "10"], "97 x 64"),
    ] {
        let out = rtm(folder.path(), &words);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_failure_of_the_library_ends_with_1_and_its_words() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    std::fs::write(folder.path().join("wrong.cfg"), "mode = later\n").unwrap();
    // A file that is missing is told before anything is computed, as a wrong argument.
    for (file, code, words) in [("wrong.cfg", 1, "later"), ("none.cfg", 2, "none.cfg")] {
        let out = rtm(folder.path(), &with_model(&["--config", file, "--steps", "60"]));
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
    }
}
