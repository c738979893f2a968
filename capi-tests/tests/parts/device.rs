//! Messages in device memory, on the software device, under MPIs that are made to take it.

use capi_tests::job::Job;
use capi_tests::mpi::Mpi;
use capi_tests::program::{cuda_aware, parts_program, staged};
use capi_tests::run::Run;

use crate::under::every_mpi;

/// A run of the program on two processes, with the library or without.
fn run(mpi: &Mpi, job: &Job, with_library: bool, arguments: &str) -> Option<Run> {
    let run = mpi.start(2)?.with_device();
    let aware = cuda_aware(mpi.compiler, &job.path(""));
    let preload = match with_library {
        true => format!("{}:{}", staged().message_log().display(), aware.display()),
        false => aware.display().to_string(),
    };
    let run = run.arg("env").arg(format!("LD_PRELOAD={preload}"));
    Some(run.arg(parts_program(mpi.compiler, "device", false)).args(arguments))
}

/// Catches a buffer in device memory that is taken for the host's, bytes that a replay does not
/// bring there, gaps that a replay fills, copies that wait for the application's queues or change
/// its context, managed memory that goes through the driver, and unreported failures of the driver.
#[test]
fn buffers_in_device_memory() {
    for mpi in every_mpi() {
        let job = Job::new("");
        let Some(run) = run(mpi, &job, true, "") else { continue };
        let _ = run.succeed();
    }
}

/// Catches a job that goes on when the driver could not read received bytes.
#[test]
fn what_cannot_be_logged_ends_the_job() {
    for mpi in every_mpi() {
        let job = Job::new("");
        let Some(run) = run(mpi, &job, true, "case=fatal") else { continue };
        let ended = run.end();
        assert!(!ended.status.success());
        let said = &ended.stderr;
        assert!(said.contains("cuMemcpyDtoHAsync_v2") && said.contains("OUT_OF_MEMORY"), "{said}");
    }
}

/// Without the library the replay waits for messages that nobody sends.
#[test]
fn without_the_library_it_hangs() {
    for mpi in every_mpi() {
        let job = Job::new("");
        let Some(run) = run(mpi, &job, false, "case=received watchdog=1") else { continue };
        let ended = run.end();
        assert!(!ended.status.success());
        assert!(ended.stdout.lines().any(|line| line == "hangs"), "{}", ended.stdout);
    }
}
