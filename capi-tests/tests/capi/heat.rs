//! The example of an adjoint in Fortran over MPI (`examples/heat`): its gradient is right, and the
//! same to the last bit however often a process was killed or the job was stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::depth::cases;
use capi_tests::job::{files, names, Job};
use capi_tests::program::{dying, fortran_example, found};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};

use super::mpi::{Mpi, MPICH, OPEN_MPI};

/// Steps of the forward sweep.
const STEPS: u64 = 120;

/// The example under an MPI.
struct Heat {
    mpi: &'static Mpi,
    ranks: usize,
    program: PathBuf,
    /// The gradient of an undisturbed run.
    whole: BTreeMap<String, Vec<u8>>,
}

/// The example under each installed MPI. A process of MPICH that waits keeps its core busy.
fn everywhere() -> &'static [Heat] {
    static INSTALLED: OnceLock<Vec<Heat>> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        cases(1, [(&OPEN_MPI, 3), (&MPICH, 2)]).filter_map(|(m, n)| Heat::new(m, n)).collect()
    })
}

impl Heat {
    fn new(mpi: &'static Mpi, ranks: usize) -> Option<Heat> {
        let compiler = mpi.compiler.replace("mpicc", "mpifort");
        if found(&compiler).is_none() {
            println!("skipped: {compiler} is not installed");
            return None;
        }
        mpi.start(ranks)?;
        let program = fortran_example(&compiler, "heat", &["plate", "mishap"]);
        let mut heat = Heat { mpi, ranks, program, whole: BTreeMap::new() };
        heat.whole = uninterrupted(&heat);
        Some(heat)
    }

    fn run(&self, job: &Job) -> Run {
        let run = self.mpi.start(self.ranks).unwrap().env(MARK, job.path(""));
        let folder = job.path("");
        run.with(|command| {
            command.current_dir(folder);
        })
        .arg(&self.program)
        .arg(job.path("veloc.cfg"))
    }

    /// A run with a signal to one process after so many of its steps.
    fn struck(&self, job: &Job, rank: u64, steps: u64, signal: i32) -> Ended {
        self.run(job).env("HEAT_MISHAP", format!("{rank} {steps} {signal}")).end()
    }
}

fn job() -> Job {
    Job::new("mode = async\nscratch = DIR/scratch\n")
}

/// The files with the gradient.
fn gradient(job: &Job) -> BTreeMap<String, Vec<u8>> {
    files(&job.path("")).into_iter().filter(|(name, _)| name.starts_with("gradient-")).collect()
}

/// Whether the adjoint has begun, judging by the stored checkpoints.
fn turned(scratch: &Path) -> bool {
    names(scratch).iter().any(|name| name.starts_with("heat.adjoint-"))
}

fn said(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

/// Catches a gradient that is not that of the misfit, because of a wrong state or a wrong adjoint
/// of the halo. A job that has come to its end leaves no files.
fn uninterrupted(heat: &Heat) -> BTreeMap<String, Vec<u8>> {
    let job = job();
    let ended = heat.run(&job).succeed();
    let rows = ended.stdout.lines().skip_while(|line| !line.contains("ratio")).skip(2);
    let ratios: Vec<f64> =
        rows.filter_map(|row| row.split_whitespace().nth(2)?.parse().ok()).collect();
    assert_eq!(ratios.len(), 3, "{}", ended.stdout);
    assert!(ratios.iter().all(|ratio| (ratio - 4.0).abs() < 0.1), "{}", ended.stdout);
    assert_eq!(names(&job.scratch()), [""; 0]);
    let gradient = gradient(&job);
    assert_eq!(gradient.len(), heat.ranks);
    assert!(gradient.values().all(|bytes| bytes.iter().any(|&byte| byte != 0)));
    gradient
}

/// Processes are killed at random steps, forward and in reverse, until the job comes to its end.
#[test]
fn killed_processes() {
    let mut random = Random::seeded("heat::killed_processes");
    for heat in everywhere() {
        let job = job();
        let (mut forward, mut reverse) = (0, 0);
        let last = loop {
            // Once anywhere in the first sweep, with the last step left to the reverse one; then
            // after as many steps as it takes to make progress.
            let steps = match forward {
                0 => 1 + random.below(STEPS - 1),
                _ => 21 + random.below(STEPS),
            };
            let ended = heat.struck(&job, random.below(heat.ranks as u64), steps, libc::SIGKILL);
            if ended.status.success() {
                break ended.succeeded();
            }
            assert!(gradient(&job).is_empty(), "{}", said(&ended));
            wait_for_backends(&job);
            *(if turned(&job.scratch()) { &mut reverse } else { &mut forward }) += 1;
            assert!(forward + reverse < 40, "no end: {}", said(&ended));
        };
        println!("killed {forward} times in the first sweep, {reverse} times after it");
        assert!(forward > 0 && reverse > 0, "{}", said(&last));
        assert_eq!(gradient(&job), heat.whole);
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}

/// A process is killed when it has written a file and others have not: of a state in the first sweep,
/// of an adjoint, and of a state that is overwritten in reverse. Files are written at once: which
/// ones are written later depends on how far the computation has come by then.
#[test]
fn killed_between_the_files_of_two_processes() {
    for heat in everywhere() {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        for file in ["heat-1-2.dat", "heat.adjoint-0-1.dat", "heat-0-4.dat"] {
            let path = job.scratch().join(file);
            let run = heat.run(&job).env("LD_PRELOAD", dying(&job.path("")));
            let ended = run.env("DIES_AT", &path).end();
            assert!(!ended.status.success(), "{file}: {}", said(&ended));
        }
        let _ = heat.run(&job).succeed();
        assert_eq!(gradient(&job), heat.whole);
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}

/// Runs are stopped by time, and by a signal to one process, in the first sweep and after it.
#[test]
fn planned_stops() {
    for heat in everywhere() {
        let job = job();
        let stopped = |ended: Ended| {
            let good = ended.status.success() && ended.stdout == "stopped; start it again\n";
            assert!(good && gradient(&job).is_empty(), "{}", said(&ended));
            let stored = names(&job.scratch());
            // Each process has the same states and the same adjoint to go on from.
            let of = |rank: usize| -> (BTreeSet<&str>, Option<i32>) {
                let of_name = |name: &str| -> BTreeSet<&str> {
                    let start = format!("{name}-{rank}-");
                    stored.iter().filter_map(|file| file.strip_prefix(&start)).collect()
                };
                let version = |file: &str| file.strip_suffix(".dat")?.parse().ok();
                (of_name("heat"), of_name("heat.adjoint").into_iter().filter_map(version).max())
            };
            assert!(!of(0).0.is_empty() && (1..heat.ranks).all(|r| of(r) == of(0)), "{stored:?}");
        };
        stopped(heat.run(&job).arg("0.000001").end());
        stopped(heat.struck(&job, 1, 30, libc::SIGUSR1));
        assert!(!turned(&job.scratch()));
        stopped(heat.struck(&job, 0, STEPS + 10, libc::SIGUSR1));
        assert!(turned(&job.scratch()));
        stopped(heat.run(&job).arg("0.000001").end());
        let _ = heat.run(&job).arg("86400").succeed();
        assert_eq!(gradient(&job), heat.whole);
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}
