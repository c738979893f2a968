//! `VELOC_Pmem_*`: arrays that survive a crash, and the iteration to go on from.

use std::fs;

use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::mpi::{every_mpi, OPEN_MPI};
use capi_tests::program::{mpi_program, persistent_memory};
use capi_tests::run::{Ended, Run};
use os::flush::Instruction;
use os::mounts::mount_of;

const KEYS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

fn run(job: &Job, arguments: &str) -> Run {
    job.run("pmem", &format!("{arguments} path=DIR/arrays"))
}

/// Catches arguments that are accepted though they cannot be, errors that do not name them, and what is left of a call
/// that was refused.
#[test]
fn what_cannot_be_is_refused_by_name() {
    let job = Job::new(KEYS);
    run(&job, "refused").succeed();
    assert!(!names(&job.path("")).iter().any(|name| name.ends_with(".new")));
}

/// Catches arrays that are not found again, an iteration that is consistent and not taken, one that is taken and is not,
/// and one beyond the slots.
#[test]
fn the_newest_consistent_iteration_is_found() {
    run(&Job::new(KEYS), "found").succeed();
    run(&Job::new(KEYS), "sums").succeed();
}

/// Catches a mixture of two iterations that is taken in silence, a warning for each search, and one where a second slot or
/// an invariant tells the mixture, or nothing was marked yet.
#[test]
fn an_iteration_that_nothing_judges_is_told_once() {
    for (arguments, told) in
        [("slots=1", 1), ("slots=1 invariants=1", 0), ("slots=2", 0), ("slots=2 invariants=1", 0)]
    {
        let ended = run(&Job::new(KEYS), &format!("trusted {arguments}")).succeed();
        let mut lines = ended.stderr.lines().filter(|line| line.contains("nothing tells"));
        let first = lines.next().unwrap_or_default();
        assert!(told == 0 || first.contains("arrays: ") && first.contains("\"x\""), "{first}");
        assert_eq!(usize::from(!first.is_empty()) + lines.count(), told, "{}", ended.stderr);
    }
}

/// SIGKILL at any moment: while the file is made and opened, arrays are added, and iterations are marked. Catches an
/// iteration that was marked and is lost, a file that cannot be opened any more, and a dead owner that has it open.
#[test]
fn nothing_marked_is_lost_when_the_process_is_killed() {
    let kills = std::env::var("VELOC_KILLS").unwrap_or_else(|_| "300".to_owned());
    let job = Job::new(KEYS);
    let ended = run(&job, &format!("storm rounds={kills} seed=1")).succeed();
    println!("killed {kills} times; opened {} times", ended.figure("opened"));
}

/// In huge pages, where a system has some for files. Catches a file that cannot be made, or mapped, or found again there.
#[test]
fn files_in_huge_pages() {
    let huge = std::path::Path::new("/dev/hugepages");
    let free = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let some = free.is_ok_and(|free| free.trim().parse::<u64>().is_ok_and(|free| free > 4));
    if !some || !mount_of(huge).is_ok_and(|mount| mount.kind == "hugetlbfs") {
        println!("skipped: there are no huge pages for files");
        return;
    }
    let folder = tempfile::tempdir_in(huge).unwrap();
    let job = Job::new(KEYS);
    let run = |arguments: &str| {
        job.run("pmem", &format!("{arguments} path={}/arrays", folder.path().display()))
    };
    run("found").succeed();
    run("storm rounds=40").succeed();
}

/// Catches a file that is made longer than the disk has room, which would end the process later, and errors without the path.
#[test]
fn a_disk_that_is_full_and_one_that_cannot_be_written_to() {
    let job = Job::new(KEYS);
    let Some(small) = Ground::mounted(&job, "small", 100_000) else { return };
    let refused = |run: Run, words: &str| {
        let ended = run.end();
        // No job is there to say whether errors are printed.
        assert!(ended.stderr.contains("veloc: error: VELOC_Pmem_open"), "{}", ended.stderr);
        let said = &ended.stdout;
        assert!(
            !ended.status.success() && said.contains("small/arrays") && said.contains(words),
            "{said}"
        );
    };
    let run = || job.run("pmem", "domain path=DIR/small/arrays");
    refused(small.under(run()), "No space left");
    let mount = format!("mount -t tmpfs -o ro none {} && exec \"$@\"", job.path("small").display());
    let by = ["--map-root-user", "--mount", "sh", "-c", &mount, "sh"];
    refused(run().by("unshare", &by), "Read-only file system");
}

/// Catches a file that is called more than it is, flushes that fault where they are executed, and a crash of the machine
/// that is promised where nothing survives one.
#[test]
fn a_file_is_no_more_than_was_found_out() {
    let job = Job::new(KEYS);
    let said = |run: Run| run.succeed().stdout;
    assert!(said(run(&job, "domain")).contains("process in 1 bytes"));

    let kind = mount_of(&job.path("")).unwrap().kind;
    let refused = |run: Run, words: &str| {
        let ended = run.end();
        let stdout = &ended.stdout;
        assert!(!ended.status.success() && stdout.contains(words), "{stdout}");
        assert!(stdout.contains("arrays: it lies in a file system of type"), "{stdout}");
    };
    if kind != "tmpfs" {
        let page = said(run(&job, "domain crash=2"));
        assert!(
            page.contains("page in 4096 bytes: no persistent memory, written back by msync"),
            "{page}"
        );
        refused(run(&job, "domain crash=1"), "without persistent memory");
    }
    if mount_of("/dev/shm".as_ref()).is_ok_and(|mount| mount.kind == "tmpfs") {
        let path = tempfile::tempdir_in("/dev/shm").unwrap();
        let run = job.run("pmem", &format!("domain crash=2 path={}/arrays", path.path().display()));
        refused(run, "keeps nothing without power");
        assert_eq!(names(path.path()), Vec::<String>::new());
    }

    let folder = tempfile::tempdir().unwrap();
    let dax = persistent_memory(folder.path());
    for crash in 1..=2 {
        let power = said(run(&job, &format!("domain crash={crash}")).env("LD_PRELOAD", &dax));
        let words = format!(
            "power in 64 bytes: persistent memory; written back by {}",
            Instruction::here().name()
        );
        assert!(power.contains(&words), "{power}");
    }
    let job = Job::new(KEYS);
    run(&job, "steps to=20 die=17").env("LD_PRELOAD", &dax).end();
    assert_eq!(from(&run(&job, "steps to=20").succeed()), (17, -1));
}

/// Where a run went on: the iteration, and the version of a checkpoint.
fn from(ended: &Ended) -> (i64, i64) {
    let number = |what: &str| {
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap().trim().parse().unwrap()
    };
    (number("iteration"), number("version"))
}

/// Catches a checkpoint that is taken though the arrays are newer, arrays that are taken though a checkpoint is newer or
/// they are not consistent, and iterations that cannot be marked behind a checkpoint.
#[test]
fn the_newer_of_arrays_and_checkpoint_is_taken() {
    let job = Job::new(KEYS);
    let ended = run(&job, "steps to=10").succeed();
    assert_eq!(from(&ended), (-1, -1));
    // The last checkpoint is of iteration 8.
    assert_eq!(from(&run(&job, "steps to=11 die=11").end()), (10, -1));
    assert_eq!(from(&run(&job, "steps to=11 lose=9").succeed()), (9, -1));
    assert_eq!(from(&run(&job, "steps to=11 lose=3").succeed()), (8, 8));
    assert_eq!(from(&run(&job, "steps to=13 die=13").end()), (11, -1));
    // The file is another one: what is older than the checkpoint, or nothing, does not count.
    fs::remove_file(job.path("arrays")).unwrap();
    assert_eq!(from(&run(&job, "steps to=13").succeed()), (12, 12));
    // Without a checkpoint, and with nothing that holds: whether to begin anew is not the library's to say.
    let job = Job::new(KEYS);
    run(&job, "steps to=3").succeed();
    let ended = run(&job, "steps to=3 lose=-1").end();
    assert!(ended
        .stderr
        .contains("no marked iteration is consistent; tried 3: \"not lost\" fails"));
    assert_eq!(from(&run(&job, "steps to=3").succeed()), (3, -1), "nothing has changed");
}

/// Two processes whose newest consistent iterations differ. Catches processes that go on from different ones, and one that
/// waits for a process whose search has failed.
#[test]
fn all_processes_go_on_from_the_same() {
    for mpi in every_mpi(&OPEN_MPI) {
        let program = || mpi_program(mpi.compiler, "pmem.c");
        let job = Job::new(KEYS);
        let start = |arguments: &str| {
            let run = mpi.start(2)?.arg(program()).arg(job.path("veloc.cfg")).args(arguments);
            Some(run.arg(format!("path={}", job.path("arrays").display())))
        };
        let Some(first) = start("steps to=10") else { continue };
        first.succeed();
        // One of them has computed on alone.
        let alone = job.path("arrays").display().to_string() + "-1";
        let on = job.run("pmem", &format!("steps to=11 keep=100 rank=1 path={alone}"));
        assert_eq!(from(&on.succeed()), (10, -1));
        let both = start("steps to=12").unwrap().succeed();
        let lines = |what: &str| both.stdout.lines().filter(|line| *line == what).count();
        assert_eq!((lines("iteration 10"), lines("version -1")), (2, 2), "{}", both.stdout);
        // One has lost its arrays: the checkpoint of both serves.
        fs::remove_file(&alone).unwrap();
        let both = start("steps to=13").unwrap().succeed();
        let lines = |what: &str| both.stdout.lines().filter(|line| *line == what).count();
        assert_eq!((lines("iteration 12"), lines("version 12")), (2, 2), "{}", both.stdout);
    }
}
