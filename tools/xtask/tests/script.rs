//! `gpu/run.sh` with a stand-in for the program `veloc`: whatever happens in a step, and however
//! the script is ended, it reports that in order, and keeps its results.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use xtask::files::write_program;

/// A bundle with only the script and a program `veloc-bench`.
struct Bundle(tempfile::TempDir);

impl Bundle {
    /// `program`: the text of a shell script. The folder `first` comes first on the path, and has
    /// an `ldconfig` that knows of no driver.
    fn new(program: &str) -> Bundle {
        let bundle = Bundle(tempfile::tempdir().unwrap());
        for name in ["bin", "tmp", "first"] {
            fs::create_dir(bundle.path(name)).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gpu/run.sh");
        fs::copy(script, bundle.path("run.sh")).unwrap();
        bundle.program("bin/veloc-bench", program);
        bundle.program("first/ldconfig", "true");
        bundle
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        write_program(&self.path(name), &format!("#!/bin/sh\n{text}\n")).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .arg(self.path("run.sh"))
            .args(arguments)
            .env("OUT", self.path("out"))
            .env("TMPDIR", self.path("tmp"))
            .env("PATH", format!("{}:{path}", self.path("first").display()))
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs the script with a file that looks like a driver.
    fn with_driver(&self, arguments: &[&str]) -> Output {
        fs::create_dir_all(self.path("driver")).unwrap();
        fs::write(self.path("driver/libcuda.so.1"), "").unwrap();
        self.command(arguments).env("LD_LIBRARY_PATH", self.path("driver")).output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The result of a step in the table of steps.
    fn result_of(&self, step: &str) -> String {
        let table = self.read("out/summary.txt");
        let line = table.lines().find(|line| line.starts_with(step)).unwrap_or_default();
        line.split_once(" s  ").map_or(line, |(_, result)| result).to_owned()
    }
}

/// A program that does every step at once; `cases` come first. `$file` is the file that the step is
/// to write.
fn steps(cases: &str) -> String {
    format!(
        "echo \"$@\" >> \"$OUT/../calls\"
        for file; do :; done
        case \"$*\" in
            {cases}
        esac
        : > \"$file\""
    )
}

/// Catches a script that starts steps which all fail, or that does not say where it looked for a
/// driver and what else can be done.
#[test]
fn without_a_driver_there_is_one_line() {
    let container = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib"];
    if container.iter().any(|folder| Path::new(folder).join("libcuda.so.1").exists()) {
        eprintln!("not tested: this machine has a driver in a fixed place");
        return;
    }
    for part in ["--figures", "--tests", "--quick"] {
        let bundle = Bundle::new(&steps(""));
        let ended = bundle.run(&[part]);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        for part in
            ["no CUDA driver", "libcuda.so.1", "LD_LIBRARY_PATH", container[0], "--software"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!((said.lines().count(), ended.stdout.len()), (1, 0), "{said}");
        assert!(!bundle.path("calls").exists() && !bundle.path("out").exists());
    }
}

/// Catches a script that goes on after its first step although the driver has no device that it can
/// use.
#[test]
fn without_a_device_nothing_else_is_begun() {
    let bundle = Bundle::new(&steps("*) echo no device >&2; exit 1 ;;"));
    fs::create_dir(bundle.path("out")).unwrap();
    let ended = bundle.with_driver(&["--figures"]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(bundle.read("calls").lines().count(), 1);
    assert_eq!(bundle.result_of("device"), "FAILED: status 1");
    assert!(bundle.result_of("the rest").contains("run.sh --software"));
    assert!(bundle.read("out/run.log").contains("no device"));
}

/// Catches a step whose failure or hang makes other steps fail, and a step that is not ended.
#[test]
fn a_step_that_hangs_and_one_that_fails_leave_the_others() {
    let bundle = Bundle::new(&steps(
        "*--only\\ launches*) exec sleep 600 ;;
         figures*) exit 3 ;;",
    ));
    fs::create_dir(bundle.path("out")).unwrap();
    // A step that hangs gets a second, the others all the time of a slow machine.
    bundle.program(
        "first/timeout",
        "first=$1; shift 2
         case \"$*\" in
            *launches*) exec /usr/bin/timeout \"$first\" 1 \"$@\" ;;
            *) exec \"$@\" ;;
         esac",
    );
    let ended = bundle.run(&["--software", "--figures"]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(bundle.result_of("launches"), "FAILED: not done in 60 s");
    assert_eq!(bundle.result_of("the paper's figures"), "FAILED: status 3");
    // The next command finds the results of this one.
    let ended = bundle.run(&["--software", "--quick", "--rest"]);
    assert_eq!(ended.status.code(), Some(0));
    for (step, file) in [
        ("device", "device.json"),
        ("initialisation", "init.json"),
        ("registration", "registration.json"),
        ("touching", "pages.json"),
        ("the library's own cost", "engine.json"),
    ] {
        assert_eq!(bundle.result_of(step), "ok", "{step}");
        assert!(bundle.path("out").join(file).exists(), "{file}");
    }
    for text in ["out/summary.txt", "out/run.log"].map(|file| bundle.read(file)) {
        let [first, second] = ["--figures\n", "--quick --rest\n"]
            .map(|part| text.find(&format!("run.sh --software {part}")).unwrap());
        assert!(first < second, "{text}");
    }
}

/// Catches a figure of the paper that takes the others with it when it hangs, or that the table of the
/// paper's numbers waits for, and an order of the figures that is not the most important first.
#[test]
fn a_figure_that_is_cut_off_is_named_and_the_others_are_there() {
    let bundle = Bundle::new(
        "echo \"$@\" >> \"$OUT/../calls\"
        for file; do :; done
        case \"$*\" in
            *--only\\ 3*) echo part > \"$file/figure-3.json\"; exec sleep 600 ;;
            figures*) : > \"$file/figure-$5.json\" ;;
            paper*) ls \"$2\" > \"$file\" ;;
            *) : > \"$file\" ;;
        esac",
    );
    fs::create_dir(bundle.path("out")).unwrap();
    bundle.program(
        "first/timeout",
        "shift 2
         case \"$*\" in
            *--only\\ 3*)
                \"$@\" &
                while kill -0 $! && [ ! -s \"$OUT/paper/figure-3.json\" ]; do sleep 0.01; done
                kill $!
                exit 124 ;;
            *) exec \"$@\" ;;
         esac",
    );
    let archive = bundle.path("results.tar.gz");
    let ended = bundle.run(&["--software", "--paper", "--archive", archive.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(bundle.result_of("figure 3 of"), "FAILED: not done in 100 s");
    let figures = ["5ab", "3", "4bc", "6ab", "6c", "4a-1", "4a-8", "5c"];
    for figure in figures {
        let file = format!("out/paper/figure-{figure}.json");
        assert!(bundle.path(&file).exists(), "{file}");
        assert!(bundle.read("out/paper.md").contains(&format!("figure-{figure}.json")), "{file}");
    }
    let table = bundle.read("out/summary.txt");
    assert_eq!(table.matches("  ok\n").count(), figures.len(), "{table}");
    let calls = bundle.read("calls");
    let begun: Vec<&str> = calls
        .lines()
        .filter_map(|call| match call.split(' ').collect::<Vec<_>>()[..] {
            ["figures", _, _, _, figure, ..] => Some(figure),
            ["init", ..] => Some("4a"),
            _ => None,
        })
        .collect();
    assert_eq!(begun, ["5ab", "3", "4bc", "6ab", "6c", "4a", "4a", "5c"]);
}

/// Catches a step that makes a part last longer than the ten minutes for which a machine is lent (or
/// the twelve of the paper's numbers): all its steps may take their full time.
#[test]
fn no_part_can_last_longer_than_it_says() {
    // Some time is left to pack the results, and to whatever starts the script.
    for (part, most) in [("--tests", 590), ("--figures", 590), ("--rest", 590), ("--paper", 715)] {
        for arguments in [&[part, "--quick"][..], &[part]] {
            let bundle = Bundle::new("");
            fs::create_dir(bundle.path("out")).unwrap();
            // No step really starts.
            bundle.program("first/timeout", "echo \"$1 $2\" >> \"$OUT/../limits\"\nexit 124");
            for name in ["hello", "rtm"] {
                bundle.program(&format!("bin/{name}"), "");
            }
            assert_eq!(bundle.with_driver(arguments).status.code(), Some(1));
            let limits = bundle.read("limits");
            let seconds: u64 = limits
                .split_whitespace()
                .map(|limit| limit.trim_start_matches("--kill-after=").parse::<u64>().unwrap())
                .sum();
            assert!(seconds <= most, "{arguments:?} may last {seconds} s:\n{limits}");
            let skipped = bundle.read("out/summary.txt").contains("skipped");
            assert!(!skipped && limits.lines().count() >= 4, "{arguments:?}:\n{limits}");
        }
    }
}

/// Catches an `ok` for a step with missed goals, judgements by one repeat, and an archive that
/// lacks the end.
#[test]
fn goals_that_were_missed_are_named() {
    // In the layout of the bench.
    let results = r#"{ "points": [
    {
      "what": "a call that is quick",
      "values": [ 1.0 ],
      "reached": true
    },
    {
      "what": "a call, \\ 4 KiB",
      "values": [ 3.0 ],
      "goal": { "at-most": 2.0 },
      "reached": false
    } ] }"#;
    let engine = format!("engine*) cat > \"$file\" <<'E'\n{results}\nE\nexit 0 ;;");
    let bundle = Bundle::new(&steps(&engine));
    fs::create_dir(bundle.path("out")).unwrap();
    let archive = bundle.path("results.tar.gz");
    let arguments = ["--software", "--quick", "--rest", "--archive", archive.to_str().unwrap()];
    let ended = bundle.run(&arguments);
    assert_eq!(ended.status.code(), Some(0));
    let result = bundle.result_of("the library's own cost");
    assert!(result.contains("MISSED in one repeat, which is no judgement"), "{result}");
    let table = bundle.read("out/summary.txt");
    assert!(table.ends_with("\n    a call, \\\\ 4 KiB\n"), "{table}");
    assert!(!table.contains("that is quick"), "{table}");
    let unpacked = bundle.path("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let mut tar = Command::new("tar");
    assert!(tar.arg("-xzf").arg(&archive).arg("-C").arg(&unpacked).status().unwrap().success());
    for name in ["engine.json", "summary.txt", "run.log"] {
        let read = |folder: &str| fs::read(bundle.path(folder).join(name)).unwrap();
        assert_eq!(read("unpacked"), read("out"), "{name}");
    }
    let ended = bundle.run(&["--archive"]);
    assert_eq!(ended.status.code(), Some(2));
}

/// Catches a log or a table without an end, an exit code that is not the signal's, a working folder
/// that stays, and a step that goes on for its minute.
#[test]
fn an_interrupted_table_is_closed_and_nothing_stays() {
    for (signal, code, whole_group) in
        [(libc::SIGINT, 130, true), (libc::SIGINT, 130, false), (libc::SIGTERM, 143, false)]
    {
        let bundle = Bundle::new(": > \"$OUT/started\"\nexec sleep 60");
        fs::create_dir(bundle.path("out")).unwrap();
        let mut command = bundle.command(&["--software", "--figures"]);
        // In a process group of its own, as on a terminal.
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // SAFETY: between fork and exec it makes one system call. A shell cannot handle a signal
        // that was ignored when it began, as in the background of another shell.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        // The log begins once the process that writes it ignores the signal.
        while !["out/started", "out/run.log"].iter().all(|file| bundle.path(file).exists()) {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before its first step");
            std::thread::sleep(Duration::from_millis(10));
        }
        let process = child.id() as libc::pid_t;
        let to = if whole_group { -process } else { process };
        // SAFETY: a child of this process that was not waited for; it leads its group.
        assert_eq!(unsafe { libc::kill(to, signal) }, 0);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal} {whole_group}");
        let (summary, log) = (bundle.read("out/summary.txt"), bundle.read("out/run.log"));
        assert!(summary.contains("device") && summary.contains("INTERRUPTED"), "{summary}");
        assert!(summary.contains("not done: SIG"), "{summary}");
        assert!(log.lines().last().unwrap().starts_with("interrupted by SIG"), "{log}");
        assert_eq!(fs::read_dir(bundle.path("tmp")).unwrap().count(), 0);
    }
}
