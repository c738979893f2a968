//! The library over MPI: one and the same binary of ours under Open MPI and under MPICH, neither of
//! which it is linked to. What is checked stands in `mpi/together.c`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use capi_tests::job::{names, Job};
use capi_tests::program::{found, mpi_program};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// An MPI installation as Debian names its commands.
struct Mpi {
    compiler: &'static str,
    starter: &'static str,
    arguments: &'static str,
}

const OPEN_MPI: Mpi = Mpi {
    compiler: "mpicc.openmpi",
    starter: "mpirun.openmpi",
    arguments: "--allow-run-as-root --oversubscribe -n 3",
};
const MPICH: Mpi = Mpi { compiler: "mpicc.mpich", starter: "mpirun.mpich", arguments: "-n 3" };

impl Mpi {
    /// The command that starts a program, if the installation is there.
    fn starter(&self) -> Option<PathBuf> {
        let starter = found(self.compiler).and_then(|_| found(self.starter));
        if starter.is_none() {
            println!("skipped: {} is not installed", self.compiler);
        }
        starter
    }

    /// A run of the script program on three processes.
    fn script(&self, job: &Job, commands: &str) -> Option<Run> {
        let starter = self.starter()?;
        Some(
            Run::new(&starter)
                .args(self.arguments)
                .arg(mpi_program(self.compiler, "script.c"))
                .arg(job.path("veloc.cfg"))
                .args(commands),
        )
    }
}

fn under(mpi: &Mpi) {
    let Some(starter) = mpi.starter() else {
        return;
    };
    let program = mpi_program(mpi.compiler, "../mpi/together.c");
    for case in ["together", "misfit"] {
        let job = Job::new(CONFIGURATION);
        Run::new(&starter)
            .args(mpi.arguments)
            .arg(&program)
            .arg(job.path("veloc.cfg"))
            .arg(format!("case={case}"))
            .arg(format!("scratch={}", job.scratch().display()))
            .succeed();
    }
    let job = Job::new(CONFIGURATION);
    Run::new(&program).arg(job.path("veloc.cfg")).arg("case=single").succeed();
}

/// Catches handles read at the wrong width or from the wrong copy of `ompi_mpi_comm_world`.
#[test]
fn open_mpi() {
    under(&OPEN_MPI);
}

/// Catches handles that are not cut to 32 bits.
#[test]
fn mpich() {
    under(&MPICH);
}

/// A job that removes old versions and is killed in the middle of its checkpoints, each process
/// somewhere else, has a version that all can restore. Catches a process that removes what is its
/// own alone to decide on.
#[test]
fn limits_leave_a_version_that_all_have() {
    for mpi in [OPEN_MPI, MPICH] {
        for mode in ["sync", "async"] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                 max_versions = 1\nscratch_versions = 1\nthreaded = true\n"
            ));
            let takes: String = (1..=60).map(|v| format!(" take=x:{v}")).collect();
            let commands = format!(
                "size=1000 take=x:0 wait barrier{takes} @1:kill{}",
                takes.replace("=x", "=y")
            );
            let Some(run) = mpi.script(&job, &commands) else { return };
            run.end();
            let versions = |rank: usize| -> BTreeSet<i32> {
                let of_rank = |name: &String| {
                    name.strip_prefix(&format!("x-{rank}-"))?.strip_suffix(".dat")?.parse().ok()
                };
                let all = [names(&job.scratch()), names(&job.persistent())].concat();
                all.iter().filter_map(of_rank).collect()
            };
            let common = (0..3).map(versions).reduce(|all, one| &all & &one).unwrap();
            let newest = common.last().unwrap_or_else(|| panic!("{mode}: none is common"));
            let commands = format!("size=1000 newest=x:{newest} restore=x:{newest}");
            mpi.script(&job, &commands).unwrap().succeed();
        }
    }
}

/// In the end each process has as many versions as the limits say, also one that was slower.
#[test]
fn limits_are_kept_in_the_end() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
             max_versions = 2\nscratch_versions = 1\n",
        );
        let takes: String = (1..=20).map(|v| format!(" take=x:{v}")).collect();
        let Some(run) = mpi.script(&job, &takes) else { return };
        run.succeed();
        let of = |versions: &[i32]| -> Vec<String> {
            (0..3).flat_map(|r| versions.iter().map(move |v| format!("x-{r}-{v}.dat"))).collect()
        };
        assert_eq!(names(&job.scratch()), of(&[20]));
        assert_eq!(names(&job.persistent()), of(&[19, 20]));
    }
}

/// All processes copy the same checkpoints to persistent, or none. Catches processes that ask their
/// own clocks.
#[test]
fn intervals_are_agreed_on() {
    for mpi in [OPEN_MPI, MPICH] {
        let with = |interval: i32| {
            Job::new(&format!(
                "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                 persistent_interval = {interval}\n"
            ))
        };
        for interval in [-1, 100_000] {
            let job = with(interval);
            let Some(run) = mpi.script(&job, "take=x:1 take=x:2 take=x:3") else { return };
            run.succeed();
            assert_eq!(names(&job.persistent()), [""; 0], "{interval}");
        }
        let job = with(1);
        let takes: String = (1..=24).map(|v| format!(" take=x:{v} sleep=100")).collect();
        mpi.script(&job, &takes).unwrap().succeed();
        let persistent = names(&job.persistent());
        assert!(!persistent.is_empty() && persistent.len() < 24 * 3, "{persistent:?}");
        for name in &persistent {
            let version = name.rsplit_once('-').unwrap().1;
            for rank in 0..3 {
                assert!(persistent.contains(&format!("x-{rank}-{version}")), "{persistent:?}");
            }
        }
    }
}

/// Processes that take different checkpoints keep them all, and are told.
#[test]
fn different_checkpoints_are_kept() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nscratch_versions = 1\n");
        let commands = "@0:take=x:1 @1:take=x:2 @2:take=x:3 take=y:1 take=y:2 @0:take=z:9";
        let Some(run) = mpi.script(&job, commands) else { return };
        let ended = run.succeed();
        assert!(ended.stderr.contains("different checkpoints"), "{}", ended.stderr);
        assert_eq!(names(&job.scratch()).len(), 3 + 6 + 1);
    }
}
