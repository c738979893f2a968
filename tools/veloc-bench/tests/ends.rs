//! How benches end before they are done: interrupted, or with nobody left to read what they print.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use xtask::stage::{stage, Profile};

static SOFTCUDA: LazyLock<PathBuf> =
    LazyLock::new(|| stage(Profile::Debug).expect("the software device").softcuda());

/// Sizes that take a moment.
const SMALL: &str = "--count 8 --size 60K --device-cache 256K --host-cache 1M --interval 0";

fn bench(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_veloc-bench"));
    command
        .args(arguments.split_whitespace())
        .env("LD_LIBRARY_PATH", &*SOFTCUDA)
        .env_remove("VELOC_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .current_dir(folder);
    command
}

/// Waits for a condition that takes moments to come true; up to a minute on a very slow machine.
fn until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that this process has started, by their numbers.
fn children(process: u32) -> Vec<String> {
    let path = format!("/proc/{process}/task/{process}/children");
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The state, parent and group of a process, as the system gives them behind its name; `None` if it
/// has ended.
fn state(process: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    (!rest.starts_with('Z')).then(|| rest.split_whitespace().map(str::to_owned).collect())
}

/// Catches an interrupted bench that ends without a line, with another exit code, or names files
/// that are not there or not those that are; half a file, processes that stay, and measurements
/// reported as failed because their processes were interrupted first. Each of these benches would
/// go on for very long.
#[test]
fn an_interrupted_bench_says_where_its_results_are() {
    let run = format!("run {SMALL} --approach direct-pin --repeats 1000000 --out r.json");
    let long = "run --count 2 --size 60K --processes 2 --interval 600000 --limit 10000";
    let long = format!("{long} --out r.json");
    let figures = format!("figures {SMALL} --only 4bc,compute --repeats 1000000 --out f")
        .replace("--interval 0", "");
    let pages = "pages --bytes 4M --threads 1 --repeats 1000000 --out p.json".to_owned();
    for (arguments, signal, code, files) in [
        (run, libc::SIGINT, 130, &["r.json"][..]),
        (long.clone(), libc::SIGTERM, 143, &[]),
        (figures, libc::SIGINT, 130, &["f/figure-4bc.json", "f/figure-compute.json"]),
        (pages, libc::SIGTERM, 143, &["p.json"]),
        (long.clone(), libc::SIGHUP, 129, &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = bench(folder.path(), &arguments);
        // As on a terminal, where Ctrl-C is for a whole group.
        command.process_group(0);
        // SAFETY: between fork and exec it makes one system call. In the background of another
        // shell the signal is ignored.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let bench = command.spawn().unwrap();
        until(&arguments, || match files {
            // Two processes are at work that will not be done for minutes.
            [] => children(bench.id()).len() > 1,
            files => files.iter().all(|file| folder.path().join(file).is_file()),
        });
        let started = children(bench.id());
        // Before that, the signal might end these processes first.
        until("its processes are apart", || {
            let mut states = started.iter().filter_map(|process| state(process));
            states.all(|state| state[2] != bench.id().to_string())
        });
        // SAFETY: a child of this process that was not waited for; it leads its group.
        assert_eq!(unsafe { libc::kill(-(bench.id() as libc::pid_t), signal) }, 0);
        let ended = bench.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{arguments}: {said}");
        assert!(!said.contains("FAILED"), "{arguments}: {said}");
        let wanted = match files {
            [] => "interrupted; no results were written".to_owned(),
            files => format!("interrupted; results so far in {}", files.join(", ")),
        };
        assert_eq!(said.lines().last(), Some(&*wanted), "{arguments}: {said}");
        until(&arguments, || !started.iter().any(|process| state(process).is_some()));
        for file in files {
            let path = folder.path().join(file);
            let _: Value = serde_json::from_slice(&fs::read(&path).unwrap()).expect(file);
            let folder = fs::read_dir(path.parent().unwrap()).unwrap();
            assert_eq!(folder.count(), files.len(), "{arguments}");
        }
    }
}

/// Catches a process of a bench that prints something when the bench ends first, wherever the
/// process is then: before its first line, while it waits, or at the next line. The bench's own
/// line must be the last on their common standard error.
#[test]
fn a_process_whose_bench_has_gone_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let member = "init --member touch --device-bytes 1M --host-bytes 1M";
    for (arguments, stdout) in
        [(member, Stdio::piped()), (member, without_a_reader()), ("worker", Stdio::piped())]
    {
        let ended = bench(folder.path(), arguments).stdout(stdout).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{arguments}");
        assert_eq!(ended.status.code(), Some(1), "{arguments}");
    }
}

/// Standard output whose reader has gone, as after the first line of `veloc ... | head -1`.
fn without_a_reader() -> Stdio {
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    Stdio::from(OwnedFd::from(writer))
}

/// Catches a panic, or any other message, when nobody reads the output, and results that are lost
/// by it.
#[test]
fn a_bench_without_a_reader_ends_quietly() {
    let run = format!("run {SMALL} --approach direct-pin --repeats 1 --out r.json");
    for (arguments, file) in [
        (&*run, Some("r.json")),
        ("pages --bytes 4M --threads 1 --repeats 1", None),
        ("engine --parts init --repeats 1", None),
        ("leads --only facts --out l.json", None),
        ("model --node h200", None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = bench(folder.path(), arguments);
        let ended = command.stdout(without_a_reader()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        // Progress is no complaint.
        let complaints = ["panicked", "error", "FAILED", "Broken pipe"];
        assert!(!complaints.iter().any(|word| said.contains(word)), "{arguments}: {said}");
        assert!(ended.status.success(), "{arguments}: {:?}", ended.status);
        if let Some(file) = file {
            let text = fs::read(folder.path().join(file)).expect(file);
            let results: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(results["measurements"][0]["runs"].as_array().unwrap().len(), 1);
        }
    }
}

/// Catches a bench that complains when `head` takes one line of its output.
#[test]
fn one_line_of_a_bench_can_be_taken() {
    let folder = tempfile::tempdir().unwrap();
    let command = r#""$BENCH" pages --bytes 4M --threads 1 --repeats 1 | head -n 1"#;
    let ended = Command::new("sh")
        .args(["-c", command])
        .env("BENCH", env!("CARGO_BIN_EXE_veloc-bench"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout).lines().count(), 1);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!said.contains("panicked") && !said.contains("error"), "{said}");
}
