//! Ephemeral jobs with a level below the host buffer: a drive without a file system in between.

use std::fs;
use std::path::Path;

use capi_tests::job::Job;
use capi_tests::program::{faults, no_uring};
use capi_tests::run::Run;
use tempfile::TempDir;

/// A directory that is not in memory, wherever temporary files are.
fn place() -> TempDir {
    tempfile::tempdir_in(os::mounts::on_a_drive(env!("CARGO_TARGET_TMPDIR").as_ref())).unwrap()
}

fn job(place: &Path, host: &str, drive: &str) -> Job {
    let place = place.display();
    Job::new(&format!(
        "mode = async\nephemeral = true\nhost_cache_size = {host}\ndrive = {place}\ndrive_size = {drive}\n"
    ))
}

fn commands(command: &str, versions: impl Iterator<Item = i32>) -> String {
    versions.map(|version| format!("{command}=x:{version} ")).collect()
}

fn without_ring(job: &Job, run: Run) -> Run {
    run.env("LD_PRELOAD", no_uring(&job.path("")))
}

/// With io_uring, and where the system refuses it. Catches bytes that come back changed, room that is not there, a file
/// with a name, and a refusal that is not said once.
#[test]
fn three_times_the_host_buffer() {
    let place = place();
    let job = job(place.path(), "6M", "16M");
    let list = format!("run=test -z \"$(ls -A {})\"", place.path().display());
    for has_ring in [true, false] {
        let run = job.run("script", "size=1000001").args(&commands("take", 0..18)).arg(&list);
        let run = run.args(&commands("restore", (0..18).rev())).args("finalize=1");
        let run = if has_ring { run } else { without_ring(&job, run) };
        let text = run.succeed().stderr;
        let said = text.matches("is read and written by threads, as there is no io_uring").count();
        // Where tests run there may be none anyway.
        assert!(said == 1 || has_ring && said == 0, "{text}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}

/// Device and host memory, in any order, through three levels. Catches parts whose places are mixed up.
#[test]
fn device_memory_comes_down_and_goes_up() {
    let place = place();
    let path = place.path().display();
    let job = Job::new(&format!(
        "mode = async\nephemeral = true\ngpu_cache_size = 4M\ngpu_chunk_size = 2M\nhost_cache_size = 6M\n\
         drive = {path}\ndrive_size = 64M\n"
    ));
    for order in ["reverse", "same", "random"] {
        let arguments = format!("versions=30 bytes=900000 host=300000 order={order} hints=all");
        job.run_device("shot", &arguments).succeed();
    }
}

/// Catches a drive that cannot be had and is not named, with its bytes, and a job that goes on without it.
#[test]
fn a_drive_that_cannot_be_had_is_an_error() {
    let place = place();
    let refused = |path: &Path, size: &str, words: &str, with: &dyn Fn(&Job, Run) -> Run| {
        let job = job(path, "6M", size);
        let run = job.run("script", "");
        let ended = with(&job, run).end();
        assert!(!ended.status.success(), "{}", path.display());
        let text = ended.stderr;
        let all = [&format!("drive = {}", path.display()), words];
        assert!(all.iter().all(|words| text.contains(*words)), "{text}");
    };
    let plain = |_: &Job, run: Run| run;
    refused(Path::new("/dev/shm"), "1M", "in memory", &plain);
    refused(&place.path().join("missing"), "1M", "its kind cannot be determined", &plain);
    refused(Path::new("/dev/null"), "1M", "neither a directory nor a block device", &plain);
    refused(place.path(), "1B", "less than one block", &plain);
    let full = |job: &Job, run: Run| {
        let run = run.env("LD_PRELOAD", faults(&job.path(""))).env("FAULTS_IN", place.path());
        run.env("FAULTS_ROOM", "1000000")
    };
    refused(
        place.path(),
        "1M",
        "drive_size is 1 MiB (1048576 bytes), and there is no room for as much",
        &full,
    );
}

/// A byte of the drive that cannot be read. Catches an error that names no version, and one that others come to harm by.
#[test]
fn a_byte_that_cannot_be_read_fails_one_version_by_name() {
    let place = place();
    let job = job(place.path(), "4M", "32M");
    let broken = job.path("broken");
    let with_faults = |run: Run| {
        let libraries = [no_uring(&job.path("")), faults(&job.path(""))];
        let libraries = libraries.map(|library| library.display().to_string()).join(" ");
        let run = run.env("LD_PRELOAD", libraries).env("FAULTS_IN", place.path());
        run.env("FAULTS_BROKEN", &broken)
    };
    let run = job.run("script", "size=1000001").args(&commands("take", 0..10));
    let run = run.arg(format!("run=echo 1100000 > {}", broken.display()));
    let run = run.args("refuse=x:1:Input/output_error");
    let run = run.args(&commands("restore", (2..10).rev())).args("restore=x:0 finalize=1");
    let text = with_faults(run).succeed().stderr;
    assert!(text.contains("version 1"), "{text}");
}

/// Catches a file that stays, with or without a name, when a process is killed, also where a child of it lives on.
#[test]
fn nothing_stays_of_a_killed_process() {
    let place = place();
    let job = job(place.path(), "6M", "64M");
    let path = place.path().display();
    let run = job.run("script", "size=1000001").args(&commands("take", 0..18));
    // It is there, and has no name.
    let run = run.arg(format!("run=ls -l /proc/$PPID/fd | grep -q '{path}/.*deleted'"));
    let child = job.path("child");
    let run = run.arg(format!("run=sleep 600 > /dev/null 2>&1 & echo $! > {}", child.display()));
    run.args("kill").end();
    let child: i32 = fs::read_to_string(child).unwrap().trim().parse().unwrap();
    let open = fs::read_dir(format!("/proc/{child}/fd")).unwrap();
    let open: Vec<_> = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).collect();
    // SAFETY: no memory is involved.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(
        !open.is_empty() && !open.iter().any(|file| file.starts_with(place.path())),
        "{open:?}"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
