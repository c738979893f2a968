//! The examples with arrays in persistent memory, crashed: what they print is what they print without a crash.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{depth, Program, COPIES, STAGE};

/// The example `examples/<name>`, compiled for crashes; `None` if there is no gcc, which is said.
fn example(name: &str, files: &[&str], arguments: &str) -> Option<Program> {
    let folder = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    for file in files {
        let mut command = Command::new("gcc");
        command
            .args(["-std=c99", "-O2", "-g", "-c", "-fsanitize=thread", "-I"])
            .arg(STAGE.include());
        command.args(COPIES.split_whitespace()).arg(sources.join(file)).current_dir(&folder);
        match command.output() {
            Ok(ended) => {
                assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: there is no gcc");
                return None;
            }
            Err(error) => panic!("gcc: {error}"),
        }
    }
    let mut command = Command::new("gcc");
    command.args(files.iter().map(|file| file.replace(".c", ".o"))).args(["-o", "program", "-L"]);
    command.arg(STAGE.lib()).arg(format!("-Wl,-rpath,{}", STAGE.lib().display()));
    command.args(["-lveloc-crash", "-lveloc-client", "-lm"]).current_dir(&folder);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some(Program { folder, arguments: arguments.to_owned() })
}

/// The equations of Laplace on a square, as a Matrix Market file.
fn write_matrix(folder: &TempDir, side: usize) {
    let mut entries = String::new();
    let mut count = 0;
    let mut entry = |row: usize, column: usize, value: i32| {
        writeln!(entries, "{} {} {value}", row + 1, column + 1).unwrap();
        count += 1;
    };
    for row in 0..side * side {
        entry(row, row, 4);
        if row % side > 0 {
            entry(row, row - 1, -1);
        }
        if row >= side {
            entry(row, row - side, -1);
        }
    }
    let head = "%%MatrixMarket matrix coordinate real symmetric";
    let size = side * side;
    let text = format!("{head}\n{size} {size} {count}\n{entries}");
    fs::write(folder.path().join("laplace.mtx"), text).unwrap();
}

/// All models and coins, with caches that are smaller than the vectors, and larger. Catches an iteration that is
/// taken for consistent and is not: an old slot under a new number, one that was never written, one that is there in part.
#[test]
fn conjugate_gradients_never_go_on_from_a_wrong_iteration() {
    let Some(program) =
        example("cg", &["cg.c", "solver.c", "matrix.c"], "--matrix laplace.mtx --crash page")
    else {
        return;
    };
    write_matrix(&program.folder, 20);
    let runs = depth(80, 400);
    let recovered = program.is_never_wrong(&format!("--runs {runs} --cache 4KiB,2"));
    assert!(recovered > runs / 8, "{recovered}");
    program.is_never_wrong(&format!("--runs {runs} --cache 64KiB,8 --replace random --seed 2"));
    program.is_never_wrong(&format!("--runs {runs} --model page --seed 3"));
    let recovered = program.is_never_wrong(&format!("--runs {runs} --model process --seed 4"));
    assert!(recovered > runs * 3 / 4, "{recovered}");
}

/// Catches a block that is taken for done and is not, or is corrected to something else.
#[test]
fn products_of_matrices_are_right_bit_for_bit() {
    let Some(program) = example("abft", &["abft.c"], "--n 64 --block 16 --crash page") else {
        return;
    };
    let runs = depth(80, 200);
    let recovered = program.is_never_wrong(&format!("--runs {runs} --cache 4KiB,2"));
    assert!(recovered > runs / 2, "{recovered}");
    program.is_never_wrong(&format!("--runs {} --model page --seed 2", runs / 2));
}

/// Catches counters that do not agree with the lookups behind which the program goes on; and, without the flushes that
/// have them agree, a simulation that does not show it.
#[test]
fn counters_agree_with_the_lookups() {
    let arguments = "--lookups 4000 --flush-every 40 --nuclides 4 --points 100 --crash page";
    let Some(program) = example("transport", &["transport.c"], arguments) else { return };
    let runs = depth(80, 200);
    let recovered = program.is_never_wrong(&format!("--runs {runs} --cache 4KiB,2"));
    assert!(recovered > runs / 4, "{recovered}");
    program.is_never_wrong(&format!("--runs {} --model page --seed 2", runs / 2));
    let arguments = format!("{arguments} --no-flush");
    let Some(program) = example("transport", &["transport.c"], &arguments) else { return };
    program.is_wrong("--runs 100 --cache 4KiB,2");
}
