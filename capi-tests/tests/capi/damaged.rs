//! Many damaged checkpoint files, each damaged in another way and given to a restart.
//! `programs/damaged_files.c` damages them and checks the result.

use std::fs;
use std::path::{Path, PathBuf};

use capi_tests::job::Job;
use capi_tests::mpi::MPICH;
use capi_tests::program::{mpi_program, Flavour};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};
use xtask::stage::{build_program, Profile};

/// The most files that one process damages, so that none is silent for long or prints too much.
const AT_ONCE: u64 = 1000;

/// The number of files to damage in all, or as `VELOC_HOSTILE` says.
fn hostile_files() -> u64 {
    let said = std::env::var("VELOC_HOSTILE").ok();
    said.map_or(400, |number| number.parse().expect("VELOC_HOSTILE is a number"))
}

/// How files of a kind are made and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Plain,
    Sanitized,
    /// By so many processes.
    Mpi(usize),
}

/// A kind of files: how they are made and damaged, as program arguments, and their share in
/// percent.
struct Kind {
    share: u64,
    by: By,
    configuration: &'static str,
    arguments: &'static str,
}

const fn kind(share: u64, by: By, configuration: &'static str, arguments: &'static str) -> Kind {
    Kind { share, by, configuration, arguments }
}

const SYNC: &str = "mode = sync\npersistent = DIR/persistent\n";
const THREADED: &str =
    "mode = async\nthreaded = true\nhost_cache_size = 4M\npersistent = DIR/persistent\n";
const CHECKED: &str = "mode = sync\npersistent = DIR/persistent\nmeta = DIR/meta\nchksum = true\n";
const UNPROVEN: &str = "mode = sync\nproof = off\n";
const AGGREGATED: &str =
    "mode = sync\npersistent = DIR/persistent\nmeta = DIR/meta\naggregated = true\n";
const ENCODED: &str = "mode = sync\nec_interval = 0\n";

const KINDS: [Kind; 12] = [
    kind(26, By::Plain, SYNC, ""),
    kind(16, By::Plain, THREADED, ""),
    kind(16, By::Plain, CHECKED, ""),
    kind(8, By::Plain, UNPROVEN, "proof=off"),
    kind(6, By::Plain, CHECKED, "kind=routed"),
    kind(6, By::Plain, SYNC, "kind=run"),
    kind(4, By::Sanitized, SYNC, ""),
    kind(8, By::Sanitized, UNPROVEN, "proof=off"),
    kind(2, By::Sanitized, CHECKED, "kind=routed"),
    kind(2, By::Sanitized, UNPROVEN, "kind=run proof=off"),
    kind(3, By::Mpi(2), AGGREGATED, ""),
    kind(3, By::Mpi(2), ENCODED, ""),
];

fn run(job: &Job, by: By, arguments: &str) -> Option<Run> {
    Some(match by {
        By::Plain => job.run("damaged_files", arguments),
        By::Sanitized => job.run_flavour("damaged_files", Flavour::Sanitized, arguments),
        By::Mpi(processes) => {
            let run = MPICH.start(processes)?.arg(mpi_program(MPICH.compiler, "damaged_files.c"));
            run.arg(job.path("veloc.cfg")).args(arguments)
        }
    })
}

fn new_job(configuration: &str) -> Job {
    Job::new(&format!("{configuration}scratch = DIR/scratch\nsync_files = none\n"))
}

fn no_panic(ended: &Ended) {
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

/// Catches a crash, an endless read, restored bytes that are not those that were stored, and bytes
/// in memory that a failing restart was to leave alone.
#[test]
fn damaged_files_in_number() {
    let mut random = Random::seeded("damaged::damaged_files_in_number");
    for Kind { share, by, configuration, arguments } in KINDS {
        let (mut left, mut sums) = ((hostile_files() * share).div_ceil(100), [0; 3]);
        while left > 0 {
            let (files, seed) = (left.min(AT_ONCE), random.below(1 << 32));
            let job = new_job(configuration);
            let arguments = format!("{arguments} files={files} seed={seed}");
            let Some(run) = run(&job, by, &arguments) else { break };
            let ended = run.succeed();
            no_panic(&ended);
            for (sum, what) in sums.iter_mut().zip(["damaged", "restored", "refused"]) {
                *sum += ended.figure(what);
            }
            left -= files;
        }
        let [damaged, restored, refused] = sums;
        println!(
            "{by:?} {configuration:?} {arguments}: {damaged} files damaged, of the versions that something \
             proves {restored} restored and {refused} refused"
        );
    }
}

/// Damaged files, looked at by the tools. Catches a tool that crashes, or does not end.
#[test]
fn damaged_files_are_looked_at() {
    let veloc = build_program("veloc-cli", "veloc", Profile::Debug).unwrap();
    let mut random = Random::seeded("damaged::damaged_files_are_looked_at");
    for (configuration, by) in
        [(SYNC, By::Plain), (CHECKED, By::Plain), (AGGREGATED, By::Mpi(2)), (ENCODED, By::Mpi(2))]
    {
        for _ in 0..hostile_files().div_ceil(4000) {
            let job = new_job(configuration);
            let Some(run) = run(&job, by, &format!("leave=1 seed={}", random.below(1 << 32)))
            else {
                break;
            };
            let _ = run.succeed();
            let configured = format!("--config {}", job.path("veloc.cfg").display());
            look(&veloc, &format!("verify {configured}"));
            for path in [job.scratch(), job.persistent()].iter().flat_map(|folder| paths(folder)) {
                look(&veloc, &format!("inspect {} {configured}", path.display()));
            }
        }
    }
}

/// Some of the files of a directory, if there is one.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    all.step_by(3).collect()
}

/// Runs the tool, which must print what it finds, or why it cannot, and nothing else.
fn look(veloc: &Path, arguments: &str) {
    let ended = Run::new(veloc).args(arguments).end();
    no_panic(&ended);
    let code = ended.status.code();
    assert!(matches!(code, Some(0..=2)), "{arguments}: {}\n{}", ended.status, ended.stderr);
}
