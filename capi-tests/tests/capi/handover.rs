//! Two programs, of which the second finds the first one's checkpoints in memory (`hand_over`).

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use capi_tests::backends::{backends, kill_backends, until, wait_for_backends, MARK};
use capi_tests::checkpoint_file::parse;
use capi_tests::job::{files, names, Job};
use capi_tests::mpi::{every_mpi, Mpi, OPEN_MPI};
use capi_tests::program::{fortran_of_text, found, mpi_program, staged};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};

const FILES: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";
const MEMORY: &str = "mode = async\nephemeral = true\n";

/// Two jobs with a name that no other test has. Their kept memory is freed when this is dropped.
struct Two {
    job: Job,
    name: String,
}

impl Two {
    fn new(configuration: &str) -> Two {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("capi-tests-{}-{next}", std::process::id());
        let two = Two { job: Job::new(""), name };
        two.configure(configuration);
        two
    }

    /// Writes the configuration, with the name and the directory of the backend's log.
    fn configure(&self, configuration: &str) {
        let memory =
            if configuration.contains("host_cache_size") { "" } else { "host_cache_size = 16M\n" };
        let name = &self.name;
        self.job.configure(&format!(
            "{configuration}{memory}hand_over = {name}\nlog_prefix = DIR/log\n"
        ));
    }

    fn run(&self, arguments: &str) -> Run {
        self.job.run("handover", arguments)
    }

    /// Runs the adjoint, which reads nothing from files.
    fn reads_memory_alone(&self, arguments: &str, from: u64) {
        let ended = self.run(&format!("adjoint from={from} {arguments}")).succeed();
        check(&ended, from);
    }

    fn free(&self) -> Ended {
        Run::new(&staged().bin().join("veloc-backend"))
            .env(MARK, self.job.path(""))
            .args(&format!("drop {}", self.name))
            .end()
    }

    fn log(&self) -> String {
        files(&self.job.path("log")).into_values().map(|b| String::from_utf8(b).unwrap()).collect()
    }

    fn kill_backends(&self) {
        kill_backends(&self.job);
        wait_for_backends(&self.job);
    }

    /// Waits until that many versions are in files.
    fn wait_for_files(&self, count: usize) {
        until("all is written", || {
            let there =
                |directory: &Path| names(directory).iter().filter(|n| !n.starts_with('.')).count();
            [self.job.scratch(), self.job.persistent()].iter().all(|d| there(d) == count)
        });
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        let _ = self.free();
        if !thread::panicking() {
            // Checkpoints that are being written are kept only once they are written. A backend
            // looks whether it can end when nobody has called it for half a second.
            let mut freed = Instant::now();
            until("the backends end", || {
                let nobody = backends(&self.job).is_empty();
                if !nobody && freed.elapsed() > Duration::from_secs(2) {
                    let _ = self.free();
                    freed = Instant::now();
                }
                nobody
            });
        }
    }
}

/// Asserts that all versions were restored, the newest first, and none from files.
fn check(ended: &Ended, from: u64) {
    let expected: Vec<u64> = (1..=from).rev().collect();
    assert_eq!(ended.figures("restored"), expected, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.figures("read"), [0], "{}{}", ended.stdout, ended.stderr);
}

/// Catches a list of versions that forgets those in files, memory that is not kept beside them, and
/// restores that look at files first. Checkpoints that were read are not kept any longer.
#[test]
fn the_second_program_needs_no_files() {
    for drain in [0, 1] {
        let two = Two::new(FILES);
        let _ = two.run(&format!("forward drain={drain}")).succeed();
        two.wait_for_files(8);
        for directory in [two.job.scratch(), two.job.persistent()] {
            for name in names(&directory) {
                fs::remove_file(directory.join(name)).unwrap();
            }
        }
        two.reads_memory_alone("", 8);
        wait_for_backends(&two.job);
        assert_eq!(names(&two.job.scratch()), [""; 0], "they were written a second time");
    }
}

/// The second program comes while the first one's states are being written. Catches two engines
/// that write from the same memory, a write that nobody finishes, and a second program that waits
/// for all writes.
#[test]
fn what_is_not_written_yet_is_written_by_the_second_program() {
    let two = Two::new(&format!("{FILES}host_cache_size = 64M\nmax_parallelism = 1\n"));
    let _ = two.run("forward size=5000000").succeed();
    two.reads_memory_alone("size=5000000", 8);
    wait_for_backends(&two.job);
    for directory in [two.job.scratch(), two.job.persistent()] {
        let found = files(&directory);
        assert_eq!(found.len(), 8, "{}: {:?}", directory.display(), found.keys());
        for (name, bytes) in found {
            let _ = parse(&bytes).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
    // Without the name the files are read.
    two.job.configure(FILES);
    let ended = two.run("adjoint size=5000000").succeed();
    assert_eq!(ended.figures("restored").len(), 8);
    assert!(ended.figure("read") > 0);
}

#[test]
fn without_any_file() {
    let two = Two::new(MEMORY);
    let _ = two.run("forward").succeed();
    two.reads_memory_alone("", 8);
    wait_for_backends(&two.job);
    assert_eq!(two.log(), "");
}

/// Checkpoints in device memory alone when the first program ends reach the host buffer first.
#[test]
fn from_device_memory() {
    for configuration in [MEMORY, FILES] {
        let two = Two::new(&format!("{configuration}gpu_cache_size = 4M\n"));
        let _ = two.run("forward device=1 drain=0").with_device().succeed();
        two.configure(&format!("{configuration}gpu_cache_size = 6M\n"));
        let ended = two.run("adjoint device=1").with_device().succeed();
        check(&ended, 8);
    }
}

/// The host buffer is too small for the device cache's content: an error says so, the rest is
/// there.
#[test]
fn what_does_not_fit_is_named() {
    let two = Two::new(&format!("{MEMORY}gpu_cache_size = 4M\nhost_cache_size = 400K\n"));
    let ended = two.run("forward device=1").with_device().succeed();
    let words = "no room for \"two\" version";
    assert!(
        ended.stdout.contains("not finalized") && ended.stdout.contains(words),
        "{}",
        ended.stdout
    );
    let ended = two.run("adjoint from=2 device=1").with_device().succeed();
    assert_eq!(ended.figures("restored"), [2, 1], "{}{}", ended.stdout, ended.stderr);
}

/// The first program is killed at any moment: either program can go on from its checkpoints.
#[test]
fn the_first_program_is_killed() {
    let mut random = Random::seeded("handover::the_first_program_is_killed");
    for (round, configuration) in
        [FILES, MEMORY, FILES, MEMORY, MEMORY, FILES].into_iter().enumerate()
    {
        let two = Two::new(&format!("{configuration}host_cache_size = 256M\n"));
        let mut forward = two.run("forward steps=80000 size=3000").start();
        forward.wait_for_line("taken 2");
        thread::sleep(Duration::from_micros(random.below(60_000)));
        forward.signal(libc::SIGKILL);
        let taken = *forward.end().figures("taken").last().unwrap();
        if round % 2 == 0 {
            two.reads_memory_alone("size=3000", taken);
            continue;
        }
        let steps = taken + 5;
        let again = two.run(&format!("forward again=1 size=3000 steps={steps}")).succeed();
        // The last checkpoint may have been taken just before the process was killed.
        assert!(again.figure("newest") - taken <= 1, "{}", again.stdout);
        assert_eq!(again.figures("taken").last(), Some(&steps));
        two.reads_memory_alone("size=3000", steps);
    }
}

/// Catches memory that is lost with a killed second program, and a list of versions that it spoils.
#[test]
fn the_second_program_is_killed() {
    for configuration in [MEMORY, FILES] {
        let two = Two::new(configuration);
        let _ = two.run("forward").succeed();
        for die in [6, 3] {
            let ended = two.run(&format!("adjoint die={die}")).end();
            assert_eq!(ended.figures("restored").last(), Some(&(die + 1)), "{}", ended.stdout);
        }
        two.reads_memory_alone("", 8);
        wait_for_backends(&two.job);
        if configuration == FILES {
            two.wait_for_files(8);
        }
    }
}

/// The second program is killed at any moment, also while it starts.
#[test]
fn the_second_program_is_killed_at_any_moment() {
    let mut random = Random::seeded("handover::the_second_program_is_killed_at_any_moment");
    let two = Two::new(&format!("{FILES}host_cache_size = 64M\n"));
    let _ = two.run("forward size=1000000 steps=30").succeed();
    for _ in 0..12 {
        let adjoint = two.run("adjoint size=1000000 steps=30 hold=1");
        let adjoint = adjoint
            .with(|command| {
                let _ = command.stdin(std::process::Stdio::piped());
            })
            .start();
        thread::sleep(Duration::from_micros(random.below(80_000)));
        adjoint.signal(libc::SIGKILL);
        let _ = adjoint.end();
    }
    two.reads_memory_alone("size=1000000", 30);
    wait_for_backends(&two.job);
    two.wait_for_files(30);
}

/// The memory goes with the backend: files are used, with one message, or there is an error.
#[test]
fn the_backend_is_killed() {
    let two = Two::new(FILES);
    let _ = two.run("forward wait=1").succeed();
    two.kill_backends();
    let ended = two.run("adjoint").succeed();
    assert_eq!(ended.figures("restored").len(), 8, "{}", ended.stdout);
    let said = ended.complaints();
    let words = format!("hand_over = {}: no veloc-backend on the host", two.name);
    assert!(said.len() == 1 && said[0].contains(&words), "{said:?}");
    assert!(said[0].contains("files are used"), "{said:?}");

    let two = Two::new(MEMORY);
    let _ = two.run("forward").succeed();
    two.kill_backends();
    let ended = two.run("adjoint").succeed();
    let cannot = ended.stdout.lines().find(|line| line.starts_with("cannot: ")).unwrap();
    assert!(cannot.contains(&two.name) && cannot.contains("no veloc-backend"), "{cannot}");
}

/// Catches an ephemeral job whose checkpoints are lost at its end without a word before.
#[test]
fn an_ephemeral_job_needs_the_backend() {
    for configuration in [MEMORY, FILES] {
        let two = Two::new(configuration);
        let ended = two.run("forward").env("VELOC_BIN", "/nonexistent").end();
        assert_eq!(ended.status.success(), configuration == FILES, "{}", ended.stdout);
        let words = format!(
            "hand_over = {}: the memory of this ephemeral job needs veloc-backend",
            two.name
        );
        assert_eq!(ended.stdout.contains(&words), configuration == MEMORY, "{}", ended.stdout);
    }
}

/// Somebody has made /tmp/veloc-UID before. Catches a socket that is there all the same, and a place that cannot be
/// used and is not named.
#[test]
fn the_sockets_have_another_place() {
    let two = Two::new(&format!("{MEMORY}run_directory = DIR/run\n"));
    fs::create_dir(two.job.path("run")).unwrap();
    let _ = two.run("forward").succeed();
    let own = names(&two.job.path("run"));
    assert!(own.len() == 1 && own[0].starts_with("veloc-"), "{own:?}");
    two.reads_memory_alone("", 8);
    let _ = two.run("forward").succeed();
    let drop = || {
        let backend = Run::new(&staged().bin().join("veloc-backend")).env(MARK, two.job.path(""));
        backend.args(&format!("drop {}", two.name))
    };
    assert!(!drop().end().status.success());
    let mut freed = drop().env("VELOC_RUN_DIRECTORY", two.job.path("run")).end();
    until("the memory is kept and freed", || {
        let done = freed.status.success();
        if !done {
            freed = drop().env("VELOC_RUN_DIRECTORY", two.job.path("run")).end();
        }
        done
    });
    wait_for_backends(&two.job);
    fs::remove_dir_all(two.job.path("run")).unwrap();
    fs::write(two.job.path("run"), "").unwrap();
    let ended = two.run("forward").end();
    assert!(ended.stdout.contains("the key run_directory"), "{}", ended.stdout);
}

/// Another host has another backend.
#[test]
fn on_another_host() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can have another host name");
        return;
    }
    let two = Two::new(MEMORY);
    let _ = two.run("forward").succeed();
    let elsewhere = ["--uts", "sh", "-c", "hostname elsewhere && exec \"$0\" \"$@\""];
    let ended = two.run("adjoint").by("unshare", &elsewhere).succeed();
    assert!(ended.stdout.contains("no veloc-backend on the host elsewhere"), "{}", ended.stdout);
    two.reads_memory_alone("", 8);
}

/// When the time is over the memory is freed, which is an error if there are no files.
#[test]
fn the_time_is_over() {
    for configuration in [MEMORY, FILES] {
        let two = Two::new(&format!("{configuration}hand_over_time = 1\n"));
        let _ = two.run("forward").succeed();
        wait_for_backends(&two.job);
        let is_lost = two.log().contains("is lost, as its time is over (hand_over_time)")
            && two.log().contains("\"two\" versions 1 to 8 (8)");
        assert_eq!(is_lost, configuration == MEMORY, "{}", two.log());
        let ended = two.run("adjoint").succeed();
        let restored = if configuration == MEMORY { 0 } else { 8 };
        assert_eq!(ended.figures("restored").len(), restored, "{}", ended.stdout);
    }
}

#[test]
fn dropped() {
    let two = Two::new(MEMORY);
    let nothing = two.free();
    assert!(!nothing.status.success() && nothing.stderr.contains(&two.name), "{}", nothing.stderr);
    let _ = two.run("forward rank=3").succeed();
    let freed = two.free();
    let words = format!("freed {}, rank 3: \"two\" versions 1 to 8 (8) (", two.name);
    assert!(freed.status.success() && freed.stdout.contains(&words), "{}", freed.stdout);
    wait_for_backends(&two.job);
    assert_eq!(two.run("adjoint rank=3").succeed().figures("restored"), [0; 0]);
}

/// Jobs that do not fit together use files, and say why.
#[test]
fn other_directories_and_ranks() {
    let two = Two::new(FILES);
    let _ = two.run("forward wait=1").succeed();
    // Rank 1 does not wait until the memory of rank 0 is kept, and may find nothing.
    let asks = || two.run("adjoint rank=1").succeed();
    let mut tries = (0..300).map(|_| asks());
    let hears = |ended: &Ended| !ended.stderr.contains("keeps nothing of this name");
    let ended = tries.find(hears).unwrap_or_else(asks);
    let words = "keeps rank 0 here, and not rank 1";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    two.configure(&FILES.replace("DIR/persistent", "DIR/elsewhere"));
    let ended = two.run("adjoint").succeed();
    assert_eq!(ended.figures("restored").len(), 8);
    for word in ["files are used", "DIR/persistent", "DIR/elsewhere"] {
        let word = word.replace("DIR", &two.job.path("").display().to_string()).replace("//", "/");
        assert!(ended.stderr.contains(&word), "{word}: {}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("hand_over").count(), 1, "once: {}", ended.stderr);
    // Nobody has taken the memory.
    two.configure(FILES);
    two.reads_memory_alone("", 8);
}

/// While the first program runs, its memory is its own.
#[test]
fn the_first_program_is_alive() {
    let two = Two::new(FILES);
    let first = two.run("forward hold=1 wait=1");
    let mut first = first
        .with(|command| {
            let _ = command.stdin(std::process::Stdio::piped());
        })
        .start();
    first.wait_for_line("taken 8");
    let ended = two.run("adjoint from=1").succeed();
    let words = format!("process {} of this name and rank runs", first.id());
    assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    let _ = first.end_input().end().succeeded();
    two.reads_memory_alone("", 8);
}

/// Keys that exclude each other, and invalid names.
#[test]
fn bad_configurations() {
    for (configuration, words) in [
        (
            "mode = sync\nscratch = DIR/s\nhand_over = a\n",
            "hand_over = a does not go with mode = sync",
        ),
        ("mode = async\nthreaded = true\nscratch = DIR/s\nhand_over = a\n", "threaded = true"),
        (
            "mode = async\nhost_cache_size = 0\nscratch = DIR/s\nhand_over = a\n",
            "host_cache_size = 0",
        ),
        (
            "mode = async\nephemeral = true\nscratch = DIR/s\nhand_over = a\n",
            "ephemeral = true with scratch",
        ),
        ("mode = async\nscratch = DIR/s\nhand_over = a/b\n", "hand_over = \"a/b\" is not allowed"),
        (
            "mode = async\nscratch = DIR/s\nhand_over = a\nhand_over_time = 0\n",
            "hand_over_time = \"0\"",
        ),
    ] {
        let job = Job::new(configuration);
        let ended = job.run("handover", "forward").end();
        assert!(
            !ended.status.success() && ended.stdout.contains(words),
            "{words}: {}",
            ended.stdout
        );
    }
}

fn mpi_run(two: &Two, mpi: &Mpi, processes: usize, arguments: &str) -> Option<Run> {
    let run = mpi.start(processes)?.env(MARK, two.job.path(""));
    let run = run.arg(mpi_program(mpi.compiler, "handover.c")).arg(two.job.path("veloc.cfg"));
    Some(run.args(arguments))
}

/// Each process gets its own memory; with another number of processes none gets any.
#[test]
fn over_mpi() {
    for mpi in every_mpi(&OPEN_MPI) {
        let two = Two::new(MEMORY);
        let Some(forward) = mpi_run(&two, mpi, 3, "forward") else { return };
        let _ = forward.succeed();
        let ended = mpi_run(&two, mpi, 2, "adjoint").unwrap().succeed();
        let words = "the job that left it had 3 processes, and this one has 2";
        assert!(
            ended.stdout.contains("cannot: ") && ended.stdout.contains(words),
            "{}",
            ended.stdout
        );
        let ended = mpi_run(&two, mpi, 3, "adjoint die=4").unwrap().end();
        // The first process that dies has mpirun end the others, which may not have said their last.
        let last = ended.figures("restored").last().copied();
        assert!(matches!(last, Some(5..=8)), "{}{}", ended.stdout, ended.stderr);
        check(&mpi_run(&two, mpi, 3, "adjoint").unwrap().succeed(), 8);
        wait_for_backends(&two.job);
    }
}

/// The programs of the guide, exactly as printed, without MPI and with the guide's changes for MPI.
/// Catches a guide that nobody can follow.
#[test]
fn the_programs_of_the_guide() {
    let page = include_str!("../../../docs/guide/two-programs.md");
    let blocks = |kind: &str| -> Vec<&str> {
        let begins = format!("```{kind}\n");
        let begun = page.split(&begins).skip(1);
        begun.map(|text| text.split_once("```").unwrap().0).collect()
    };
    let (mut u, mut lambda) = (vec![0.1], 1.0);
    for i in 0..200 {
        u.push(u[i] + 0.1 * u[i] * (1.0 - u[i]));
    }
    (0..200).rev().for_each(|i| lambda *= 1.0 + 0.1 * (1.0 - 2.0 * u[i]));
    let over_mpi = |text: &str| {
        text.replace("use veloc\n", "use veloc\n  use mpi\n")
            .replace(
                "call VELOC_Init_single(0,",
                "call MPI_Init(err)\n  call VELOC_Init(MPI_COMM_WORLD,",
            )
            .replace("contains\n", "  call MPI_Finalize(err)\ncontains\n")
    };
    for (compiler, processes) in [("gfortran", 1), (OPEN_MPI.fortran, 2)] {
        if found(compiler).is_none() {
            println!("skipped: {compiler} is not installed");
            continue;
        }
        let two = Two::new("");
        let configuration = blocks("ini")[0].replace("/local/scratch", "DIR/scratch");
        two.job.configure(&configuration.replace("shot-7", &two.name));
        fs::rename(two.job.path("veloc.cfg"), two.job.path("two.cfg")).unwrap();
        let run = |name: &str, text: &str| {
            let (text, run) = match processes {
                1 => (text.to_owned(), None),
                _ => (over_mpi(text), Some(OPEN_MPI.start(processes).unwrap())),
            };
            let program = fortran_of_text(compiler, name, &text);
            let run = run.map_or_else(|| Run::new(&program), |run| run.arg(&program));
            let folder = two.job.path("");
            run.env(MARK, &folder).with(|command| {
                command.current_dir(&folder);
            })
        };
        let [forward, adjoint] = blocks("fortran")[..] else { panic!("two programs") };
        let ended = run("forward", forward).end();
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        for name in names(&two.job.scratch()) {
            let _ = fs::remove_file(two.job.scratch().join(name));
        }
        let ended = run("adjoint", adjoint).end();
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        let sums: Vec<f64> =
            ended.stdout.lines().filter_map(|line| line.trim().parse().ok()).collect();
        assert_eq!(sums.len(), processes, "{}", ended.stdout);
        assert!(sums.iter().all(|sum| (sum / (1000.0 * lambda) - 1.0).abs() < 1e-9), "{sums:?}");
        assert_eq!(ended.complaints(), [""; 0]);
    }
}
