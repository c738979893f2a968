//! A log that is larger than its memory (`VELOC_MPI_LOG_MEMORY`), and than the host buffer.

use std::fs;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::checkpoint_file::{encode, parse};
use capi_tests::job::{names, Job};
use capi_tests::run::{Ended, Run};

use crate::under::{every_mpi, run, Library};

/// The region with the log, as in the guide.
const MESSAGES: i32 = i32::MIN + 1;

fn job() -> Job {
    Job::new("mode = async\nscratch = DIR/scratch\nhost_cache_size = 4M\n")
}

/// A run in this job for each MPI that is installed.
fn runs(job: impl Fn() -> Job, arguments: &str, body: impl FnMut(&Job, &dyn Fn(&str) -> Run)) {
    runs_of(2, job, arguments, body);
}

/// Runs of so many processes, for each MPI that is installed.
fn runs_of(
    processes: usize,
    job: impl Fn() -> Job,
    arguments: &str,
    mut body: impl FnMut(&Job, &dyn Fn(&str) -> Run),
) {
    for mpi in every_mpi() {
        let job = job();
        let start = |more: &str| {
            let configuration = job.path("veloc.cfg");
            let (configuration, scratch) = (configuration.display(), job.scratch());
            let arguments = format!("{configuration} {} {arguments} {more}", scratch.display());
            let run = run(mpi, Library::Linked, processes, "spilled_log", &arguments)?;
            Some(run.env(MARK, job.path("")).env("VELOC_MPI_LOG_MEMORY", "2M"))
        };
        if start("").is_some() {
            body(&job, &|more| start(more).unwrap());
        }
    }
}

/// The number of a log's files that have a name in scratch.
fn hidden_files(job: &Job) -> usize {
    names(&job.scratch()).iter().filter(|name| name.starts_with('.')).count()
}

fn passes(arguments: &str) {
    runs(job, arguments, |_, start| drop(start("").succeed()));
}

/// Catches bytes of another chunk, or of another time, in a replay; a log that stays in memory, or
/// that leaves a file or a byte; and a chunk that is freed while a kept part still needs it.
#[test]
fn a_log_larger_than_memory_is_replayed() {
    passes("");
}

/// Catches a log that waits for the client's lock, or for one of its phases, while the application
/// has a checkpoint or a restart open.
#[test]
fn whatever_the_application_has_open() {
    passes("open=1");
}

/// Catches a log that is removed with the job that has made its files, also when another job
/// begins, and files that stay when the process has ended.
#[test]
fn the_end_of_the_job_leaves_the_log_its_files() {
    for arguments in ["early=1", "early=1 again=1"] {
        runs(job, arguments, |job, start| {
            let ended = start("").succeed();
            assert!(!ended.stderr.contains("VELOC_MPI_LOG_MEMORY"), "{}", ended.stderr);
            assert_eq!(hidden_files(job), 0, "{arguments}");
        });
    }
}

/// Catches a call that fails, hangs or ends the process because no file can be written, and a log
/// that stays in memory without a message.
#[test]
fn without_space_the_log_stays_in_memory() {
    runs(job, "full=1", |_, start| {
        let ended = start("").succeed();
        let lines = |ended: &Ended| {
            let is_one = |line: &&str| {
                line.contains("VELOC_MPI_LOG_MEMORY") && line.starts_with("veloc (rank ")
            };
            ended.stderr.lines().filter(is_one).map(str::to_owned).collect::<Vec<_>>()
        };
        let said = lines(&ended);
        assert!(said.len() == 2 && said[0].contains("stays in memory"), "{}", ended.stderr);
    });
}

/// Catches files of a killed process that stay; a log that differs in the process that goes on; a
/// checkpoint with a log in one piece, which would need too much memory; and chunks of it that are
/// used though they have changed.
#[test]
fn a_killed_process_leaves_no_files() {
    runs(job, "", |job, start| {
        let ended = start("die=7").end();
        assert!(!ended.status.success(), "{}", ended.stdout);
        wait_for_backends(job);
        assert_eq!(hidden_files(job), 0);
        let path = job.scratch().join("all-1-1.dat");
        let good = fs::read(&path).unwrap();
        let mut regions = parse(&good).unwrap();
        let (log, chunks) = (&regions[0], &regions[1..regions.len() - 1]);
        assert!(log.0 == MESSAGES && log.1.len() < 100_000 && chunks.len() > 40);
        assert!(chunks.iter().all(|(_, bytes)| bytes.len() == 256 << 10));
        regions[9].1[1000] ^= 1;
        fs::write(&path, encode(&regions)).unwrap();
        // Refused by the log's own digest, not by the file's proof.
        let ended = start("").env("VELOC_PROOF", "off").end();
        let is_refused = ended.stderr.contains("damaged: its chunks do not match");
        assert!(!ended.status.success() && is_refused, "{}", ended.stderr);
        wait_for_backends(job);
        fs::write(&path, good).unwrap();
        let ended = start("").succeed();
        assert!(ended.stdout.contains("goes on"), "{}", ended.stdout);
    });
}

/// Catches files that depend on how the job takes its checkpoints.
#[test]
fn other_ways_to_keep_the_log() {
    let with = |text: &'static str| move || Job::new(text);
    let sync = with("mode = sync\nscratch = DIR/scratch\nmeta = DIR/meta\nchksum = true\n");
    runs(sync, "", |_, start| drop(start("").succeed()));
    // Chunks that are larger than the host buffer.
    let small = with("mode = async\nscratch = DIR/scratch\nhost_cache_size = 64K\n");
    runs(small, "", |_, start| drop(start("").succeed()));
    let ephemeral =
        with("mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 4M\n");
    runs(ephemeral, "", |_, start| drop(start("").succeed()));
}

/// Catches a limit that is not a number and is ignored.
#[test]
fn a_limit_that_is_none_is_an_error() {
    runs(job, "", |_, start| {
        let ended = start("").env("VELOC_MPI_LOG_MEMORY", "2MB").end();
        assert!(!ended.status.success());
        assert!(ended.stdout.contains("VELOC_MPI_LOG_MEMORY is \"2MB\""), "{}", ended.stdout);
    });
}
