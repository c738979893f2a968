//! `veloc crash` on programs that compilers have made for it.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use xtask::stage::{stage, Profile, StagedFolders};

static STAGE: LazyLock<StagedFolders> =
    LazyLock::new(|| stage(Profile::Debug).expect("the libraries"));

/// What keeps gcc from putting its own code in place of copies.
const COPIES: &str = "-fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove";

mod examples;

/// A program with its arguments, and the folder that it is started in.
struct Program {
    folder: TempDir,
    arguments: String,
}

/// So many crashes or seeds, or all of them before a release.
fn depth(few: u64, all: u64) -> u64 {
    if std::env::var_os("VELOC_TEST_ALL").is_some() {
        all
    } else {
        few
    }
}

impl Program {
    /// Compiles a source; `None` if there is no such compiler, which is said.
    fn new(compiler: &str, source: &str, options: &str) -> Option<Program> {
        let program = Program { folder: tempfile::tempdir().unwrap(), arguments: String::new() };
        let compiled = program.compile(compiler, source, &format!("-fsanitize=thread {options}"));
        compiled.then(|| {
            program.link(compiler, "-lveloc-crash -lveloc-client -lm");
            program
        })
    }

    fn compile(&self, compiler: &str, source: &str, options: &str) -> bool {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash");
        let mut command = Command::new(compiler);
        command.args(["-O2", "-g", "-c", "-o", "object.o"]).args(options.split_whitespace());
        command.arg("-I").arg(STAGE.include()).arg(sources.join(source));
        match command.current_dir(&self.folder).output() {
            Ok(ended) => {
                assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: there is no {compiler}");
                false
            }
            Err(error) => panic!("{compiler}: {error}"),
        }
    }

    fn link(&self, compiler: &str, options: &str) {
        let mut command = Command::new(compiler);
        command.args(["object.o", "-o", "program", "-pthread", "-L"]).arg(STAGE.lib());
        command.arg(format!("-Wl,-rpath,{}", STAGE.lib().display()));
        let ended =
            command.args(options.split_whitespace()).current_dir(&self.folder).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }

    /// `veloc crash` with these options.
    fn crash(&self, options: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_veloc"));
        command.args(["crash", "--json", "results.json"]).args(options.split_whitespace());
        command.args(["--", "./program"]).args(self.arguments.split_whitespace());
        command.current_dir(&self.folder);
        // What is kept goes with the test.
        command.env("TMPDIR", self.folder.path()).env("LD_LIBRARY_PATH", STAGE.softcuda());
        command.output().unwrap()
    }

    /// Its exit code, its results, and what it has printed.
    fn results(&self, options: &str) -> (Option<i32>, Value, String) {
        let ended = self.crash(options);
        let error = String::from_utf8_lossy(&ended.stderr);
        let text = fs::read(self.folder.path().join("results.json"));
        let text = text.unwrap_or_else(|_| panic!("{error}"));
        fs::remove_file(self.folder.path().join("results.json")).unwrap();
        let printed = String::from_utf8(ended.stdout).unwrap();
        (ended.status.code(), serde_json::from_slice(&text).unwrap(), printed)
    }

    /// All crashes come and end right, most behind marked iterations, and all stores are seen.
    fn is_right(&self, options: &str) {
        let (code, results, printed) = self.results(options);
        let runs = options.split_whitespace().nth(1).unwrap();
        assert_eq!(results["crashes"].to_string(), runs, "{printed}");
        assert_eq!(code, Some(0), "{printed}");
        assert_eq!(results["unseen"], 0);
        assert!(results["recovered"].as_u64().unwrap() > results["crashes"].as_u64().unwrap() / 2);
        // The user's own files are not touched.
        assert!(!self.folder.path().join("arrays").exists());
    }

    /// Some crashes end wrong.
    fn is_wrong(&self, options: &str) -> Value {
        let (code, results, printed) = self.results(options);
        assert_eq!(code, Some(1), "{printed}");
        assert_eq!(results["unseen"], 0);
        assert!(
            results["wrong"].as_u64().unwrap() > 0 && printed.contains("--only 1/"),
            "{printed}"
        );
        results
    }

    /// How many crashes end wrong with this seed; all stores are seen.
    fn is_wrong_by(&self, options: &str, seed: u64) -> u64 {
        let (_, results, printed) = self.results(&format!("{options} --seed {seed}"));
        println!("{options} --seed {seed}\n{printed}");
        assert_eq!(results["unseen"], 0);
        results["wrong"].as_u64().unwrap()
    }

    /// No crash ends wrong or hangs, and all stores are seen. Returns how many went on behind a marked iteration.
    fn is_never_wrong(&self, options: &str) -> u64 {
        let (code, results, printed) = self.results(options);
        println!("{options}\n{printed}");
        assert_eq!(code, Some(0), "{options}: {printed}");
        assert_eq!(results["unseen"], 0);
        results["recovered"].as_u64().unwrap()
    }
}

/// Catches a simulation that loses what was flushed and drained, or keeps less than its model says; crashes that are left
/// out; and lost iterations that are counted where none is lost.
#[test]
fn a_program_that_flushes_and_drains_is_right_after_any_crash() {
    let Some(program) = Program::new("gcc", "pair.c", "") else { return };
    for model in ["process", "power", "page"] {
        program.is_right(&format!("--runs {} --model {model} --cache 4KiB,2", depth(60, 200)));
    }
    let (_, results, printed) = program.results("--runs 40 --replace random");
    assert_eq!(results["crashes"], 40);
    // Before the first mark there is no iteration to lose.
    let unmarked = results["unmarked"].as_u64().unwrap();
    assert!(unmarked < 20, "{printed}");
    // Half of the crashes come around calls, and tell nothing of how much is lost.
    let lost = results["lost"].as_object().unwrap();
    assert!(lost.len() == 1 && lost["0"].as_u64().unwrap() <= 20, "{printed}");
    assert!(printed.contains("accesses"), "{printed}");
}

/// Catches a simulation under which stores arrive that nobody has flushed; and a process's crash that loses stores.
#[test]
fn a_flush_that_is_left_out_gives_wrong_results() {
    let Some(program) = Program::new("gcc", "pair.c", "-DNO_FLUSH") else { return };
    program.is_wrong("--runs 60");
    for coin in ["0", "0.5", "cache"] {
        program.is_wrong(&format!("--runs 40 --coin {coin}"));
    }
    program.is_wrong("--runs 60 --model page --coin 0.5");
    program.is_right("--runs 60 --model process");
}

/// A mark that is in the wrong place for a moment in an iteration of 12,000 accesses: before a flush, before a store, or
/// behind one. Catches crashes that come at any access and, but by chance, never just before a call, or behind one; and a
/// right program that is taken for wrong.
#[test]
fn a_mark_in_the_wrong_place_is_found() {
    let Some(program) = Program::new("gcc", "late.c", "") else { return };
    program.is_right(&format!("--runs {}", depth(60, 200)));
    for first in ["-DMARK_FIRST", "-DSTORE_LAST", "-DSTORE_FIRST"] {
        let Some(program) = Program::new("gcc", "late.c", first) else { return };
        for seed in 1..=depth(1, 3) {
            let found = program.is_wrong_by("--runs 50", seed);
            assert!(found > 5, "{first}, seed {seed}: {found}");
        }
    }
}

/// An invariant that does not ask for one of four vectors, of 3,000 numbers each. Catches coins of which each loses lines of
/// all vectors, or of none; scalars of another iteration than the one that was found; and a right program that is taken
/// for wrong.
#[test]
fn an_invariant_that_leaves_out_a_vector_is_found() {
    let Some(program) = Program::new("gcc", "bicgstab.c", "") else { return };
    program.is_never_wrong(&format!("--runs {}", depth(100, 300)));
    let recovered = program.is_never_wrong("--runs 100 --coin few-lost");
    assert!(recovered > 10, "{recovered}");
    let Some(program) = Program::new("gcc", "bicgstab.c", "-DWITHOUT_V") else { return };
    for seed in 1..=depth(1, 3) {
        let found = program.is_wrong_by("--runs 300", seed);
        assert!(found > 0, "seed {seed}: {found}");
    }
}

/// Catches a program that asks for no more than a crash of the process, and is judged by one of the machine; one that is asked
/// for all the same and is not simulated; and a report that does not say which it was.
#[test]
fn a_program_is_judged_by_the_crash_that_it_names() {
    let named = |crash: &str| Program::new("gcc", "pair.c", &format!("-DNO_FLUSH -DCRASH={crash}"));
    let Some(program) = named("VELOC_CRASH_PROCESS") else { return };
    program.is_right("--runs 40");
    let (_, results, printed) = program.results("--runs 4");
    assert_eq!(results["files"], serde_json::json!([{ "file": "arrays", "model": "process" }]));
    assert!(printed.contains("arrays: as a crash of model process leaves it"), "{printed}");
    let results = program.is_wrong("--runs 60 --model power");
    assert_eq!(results["files"][0]["model"], "power");
    let Some(program) = named("VELOC_CRASH_PAGE") else { return };
    let results = program.is_wrong("--runs 60");
    assert_eq!(results["files"][0]["model"], "power");
    // Each file by its own.
    let Some(program) = Program::new("gcc", "pair.c", "-DTWO") else { return };
    program.is_right(&format!("--runs {}", depth(60, 200)));
    program.is_wrong("--runs 60 --model power");
    let Some(program) = Program::new("gcc", "pair.c", "-DTWO -DNO_FLUSH") else { return };
    program.is_wrong("--runs 60");
}

/// Catches a program that ends and says why, of which the status alone is shown: after a crash, and before any.
#[test]
fn a_program_that_gives_up_is_asked_why() {
    let Some(program) = Program::new("gcc", "sums.c", "-DMORE -DGIVE_UP") else { return };
    let results = program.is_wrong("--runs 60 --coin 0");
    let why = results["not_right"][0]["why"].as_str().unwrap();
    let words = "it ended with exit status: 4, saying \"gives up: ";
    assert!(why.starts_with(words) && why.contains("no marked iteration is consistent"), "{why}");
    let Some(program) = Program::new("gcc", "pair.c", "-DCRASH=7") else { return };
    let ended = program.crash("");
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(error.contains("exit status: 3, saying \"") && error.contains("crash = 7"), "{error}");
}

/// Catches calls that are left out at other places than is said, one that is needed and not found so, or the other way
/// round.
#[test]
fn each_call_is_needed_or_reported() {
    let Some(program) = Program::new("gcc", "pair.c", "-DMORE") else { return };
    let (code, results, printed) = program.results("--runs 150 --coin 0.5 --mutate");
    assert_eq!(code, Some(0), "{printed}");
    let source = include_str!("pair.c");
    let mutations = results["mutations"].as_array().unwrap();
    let of = |what: &str| {
        let line = 1 + source.lines().position(|line| line.contains(what)).unwrap();
        let line = format!("pair.c:{line}");
        let found = mutations.iter().find(|mutation| mutation["line"] == *line);
        let found = found.unwrap_or_else(|| panic!("{line}: {printed}"));
        (found["needed"].as_bool().unwrap(), found["why"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(mutations.len(), 5, "{printed}");
    for needed in ["/* data */", "/* between */", "/* head */"] {
        let (needed, why) = of(needed);
        assert!(needed && why.contains("wrong result in 1/"), "{why}: {printed}");
    }
    let (needed, why) = of("/* mark */");
    assert!(needed && why.contains("iterations lost"), "{why}: {printed}");
    assert!(!of("/* mark drains as well */").0, "{printed}");
}

/// Catches copies whose stores are not seen, or arrive all at once; false alarms where threads take turns; and stores of
/// the system that are taken for seen, or not named.
#[test]
fn copies_and_threads_are_seen_and_other_stores_are_named() {
    let Some(program) = Program::new("gcc", "many.c", "") else { return };
    program.is_right("--runs 40 --cache 4KiB,1");
    let Some(program) = Program::new("gcc", "many.c", &format!("-DCOPY {COPIES}")) else { return };
    program.is_right("--runs 40 --cache 4KiB,1");
    let wrong = format!("-DCOPY -DNO_FLUSH {COPIES}");
    let Some(program) = Program::new("gcc", "many.c", &wrong) else { return };
    program.is_wrong("--runs 40");
    let Some(program) = Program::new("gcc", "many.c", "-DREAD") else { return };
    let (code, results, printed) = program.results("--runs 4");
    assert_eq!(code, Some(1), "{printed}");
    assert!(results["unseen"].as_u64().unwrap() > 0, "{results}");
    assert_eq!(results["stored"][0]["file"], "arrays");
    assert!(printed.contains("Nothing below can be believed"), "{printed}");
    let named = |line: &str| line.contains("of arrays") && line.contains("many.c:");
    assert!(printed.lines().any(named), "{printed}");
}

/// Catches other compilers' calls that are not there or not understood: structures, atomics, whole arrays.
#[test]
fn other_languages_and_compilers_are_understood() {
    for compiler in ["g++", "clang++"] {
        if let Some(program) = Program::new(compiler, "cells.cpp", COPIES) {
            program.is_right("--runs 40 --cache 4KiB,2");
        }
    }
    if let Some(program) = Program::new("clang", "pair.c", "") {
        program.is_right("--runs 40");
    }
    let options = match cfg!(target_arch = "x86_64") {
        true => "-mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign",
        false => "",
    };
    if let Some(program) = Program::new("gfortran", "arrays.f90", options) {
        program.is_right("--runs 40 --cache 4KiB,2");
    }
}

/// Catches sums that the library stores unseen, and the first two holes of the published method: that they are not found, or
/// not closed by an invariant that asks for more.
#[test]
fn invariants_are_tried_as_well() {
    let Some(program) = Program::new("gcc", "sums.c", "") else { return };
    program.is_wrong("--runs 100 --cache 4KiB,1");
    let Some(program) = Program::new("gcc", "sums.c", "-DMORE") else { return };
    let (code, results, printed) = program.results("--runs 100 --cache 4KiB,1");
    assert_eq!((code, &results["unseen"]), (Some(0), &Value::from(0)), "{printed}");
    // Not all are there, and it is said how many are lost.
    assert!(results["lost"].as_object().unwrap().len() > 2, "{printed}");
}

/// What a crash has left: the files of the folder that was kept, by their names.
fn image(results: &Value) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = results["only"]["folder"].as_str().unwrap_or_else(|| panic!("{results}"));
    let files = fs::read_dir(Path::new(folder).join("image")).unwrap().map(|file| file.unwrap());
    let content = |file: fs::DirEntry| (file.file_name().into(), fs::read(file.path()).unwrap());
    files.map(content).collect()
}

/// Catches a crash that another run does not repeat, whatever the addresses and the number of crashes are; and two crashes
/// that leave the same. The second program's heap goes through the cache, too.
#[test]
fn a_crash_is_repeated_by_its_seed() {
    let cache = "--cache 4KiB,2";
    let mut images = Vec::new();
    for (compiler, source, coin) in
        [("gcc", "pair.c", "0.5"), ("gcc", "pair.c", "cache"), ("g++", "cells.cpp", "cache")]
    {
        let options = format!("-DNO_FLUSH {COPIES}");
        let Some(program) = Program::new(compiler, source, &options) else { continue };
        let found = program.is_wrong(&format!("--runs 60 --coin {coin} {cache}"));
        // From the end: what differs from run to run adds up. Neighbours may leave the same.
        let wrong = found["not_right"].as_array().unwrap().iter().rev().step_by(3).take(2);
        for judged in wrong {
            let again = format!("--only 1/{} --coin {coin} {cache}", judged["number"]);
            let (code, first, printed) = program.results(&again);
            assert_eq!(code, Some(1), "{printed}");
            for what in ["number", "coin", "why", "marked", "found"] {
                assert_eq!(first["only"][what], judged[what], "{what}");
            }
            // As it is printed.
            let line = printed.lines().find_map(|line| line.strip_prefix("wrong: ")).unwrap();
            let (_, second, _) = program.results(line.split_once(", coin ").unwrap().0);
            assert_eq!(image(&first), image(&second));
            assert_eq!(image(&first).len(), 1);
            images.push(image(&first));
        }
    }
    let distinct = images.iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(distinct.len(), images.len());
}

/// Catches programs that cannot be looked at, and are said to be right; and what is said of them in place of the cause.
#[test]
fn programs_that_were_not_compiled_so_are_refused() {
    let process = "-DCRASH=VELOC_CRASH_PROCESS";
    let Some(program) = Program::new("gcc", "pair.c", process) else { return };
    let refused = |options: &str, words: &[&str]| {
        let ended = program.crash(options);
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let how = "-fsanitize=thread";
    program.link("gcc", "-lveloc-client -lveloc-crash");
    refused("", &["VELOC_Pmem_flush", "libveloc-client", how]);
    program.link("gcc", "-fsanitize=thread -Wl,--no-as-needed -lveloc-crash -lveloc-client");
    refused("", &["__tsan_read8", "libtsan", how]);
    program.compile("gcc", "pair.c", process);
    program.link("gcc", "-lveloc-client");
    refused("", &["not linked with libveloc-crash", how]);
    program.link("gcc", "-Wl,--no-as-needed -lveloc-crash -lveloc-client");
    refused("", &["no code that was compiled for this", how]);
}

/// Catches a comparison that is not asked, or whose answer is not taken; and results that are kept and cannot be found.
#[test]
fn a_command_may_judge() {
    let Some(program) = Program::new("gcc", "pair.c", "") else { return };
    let compare = |command: &str| {
        let mut veloc = Command::new(env!("CARGO_BIN_EXE_veloc"));
        veloc.args(["crash", "--runs", "6", "--compare", command, "--", "./program"]);
        veloc.env("TMPDIR", program.folder.path()).current_dir(&program.folder);
        let ended = veloc.env("LD_LIBRARY_PATH", STAGE.softcuda()).output().unwrap();
        let printed = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
        (ended.status.code(), printed.concat())
    };
    let (code, printed) = compare("cmp stdout \"$VELOC_CRASH_REFERENCE\"");
    assert_eq!(code, Some(0), "{printed}");
    // Of no use: it does not even take the undisturbed run for right.
    let (code, printed) = compare("exit 3");
    assert!(
        code == Some(1)
            && printed.contains("without a crash, the comparison ended with exit status: 3"),
        "{printed}"
    );
    let (code, printed) = compare("test ! -e crash || exit 3");
    assert!(code == Some(1) && printed.contains("exit status: 3"), "{printed}");
    let kept = printed.lines().find_map(|line| line.strip_prefix("kept: ")).unwrap();
    assert!(fs::read_dir(Path::new(kept).join("crash")).unwrap().count() > 6, "{printed}");
}

/// Catches a folder of crashes that outlives a run that is interrupted, which may be large, and programs that go on in it.
#[test]
fn an_interrupted_run_leaves_neither_its_folder_nor_programs() {
    let Some(program) = Program::new("gcc", "pair.c", "") else { return };
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_veloc"));
    // A shell has what it starts in the background ignore the signal, and the program would go on doing so.
    let unignored = || {
        // SAFETY: no handler is involved.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call.
    unsafe { command.pre_exec(unignored) };
    let mut crash = command
        .args(["crash", "--runs", "1000000", "--", "./program"])
        .current_dir(&program.folder)
        .env("TMPDIR", temporary.path())
        .env("LD_LIBRARY_PATH", STAGE.softcuda())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let results = || {
        let folder = fs::read_dir(temporary.path()).unwrap().flatten().next();
        folder.is_some_and(|folder| folder.path().join("crash/results").exists())
    };
    let running = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let here = fs::canonicalize(program.folder.path()).unwrap();
        all.filter(|entry| {
            let state = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let state = state.rsplit_once(") ").map_or("Z", |(_, rest)| rest).to_owned();
            let file = fs::read_link(entry.path().join("exe"));
            !state.starts_with('Z') && file.is_ok_and(|file| file.starts_with(&here))
        })
        .count()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < Duration::from_secs(120), "still waiting: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("crashes are judged", &results);
    until("a program runs", &|| running() > 0);
    // SAFETY: a child of this process that was not waited for.
    assert_eq!(unsafe { libc::kill(crash.id() as libc::pid_t, libc::SIGINT) }, 0);
    assert_eq!(crash.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    until("its programs end", &|| running() == 0);
}
