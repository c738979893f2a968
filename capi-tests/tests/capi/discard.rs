//! Adjoint computations of several processes that do not go on: `VELOC_Adjoint_discard` removes the
//! files of each process, in all places and of all kinds. The processes check this in `mpi/adjoint_failures.c`.

use std::path::PathBuf;

use capi_tests::backends::wait_for_backends;
use capi_tests::depth::cases;
use capi_tests::job::{names, Job};

use crate::adjoint_failures::ring;
use crate::mpi::{every_mpi, MPICH, OPEN_MPI};

/// The directories in which a job of three processes keeps files.
fn places(job: &Job) -> Vec<PathBuf> {
    let scratch = (0..3).map(|rank| job.path(&format!("scratch-{rank}")));
    scratch.chain([job.persistent(), job.path("meta")]).filter(|path| path.exists()).collect()
}

/// The files of the run, with the place of each.
fn left(job: &Job) -> Vec<String> {
    let of_run = |name: &String| name.trim_start_matches('.').starts_with("ring");
    let of_place = |place: PathBuf| {
        let folder = place.file_name().unwrap().to_string_lossy().into_owned();
        names(&place).into_iter().filter(of_run).map(move |name| format!("{folder}/{name}"))
    };
    places(job).into_iter().flat_map(of_place).collect()
}

/// States, adjoints and hashes of each process, in scratch, in persistent, in one file with those
/// of others, with checksums and with parities; a later job removes them, whoever comes to that
/// first. Catches a discard that leaves a name, a place, or a note beside a file, a discard that
/// removes the application's files, and a process that uses a file that another has removed.
#[test]
fn what_all_have_left_is_discarded() {
    let all = [
        (
            &OPEN_MPI,
            "async",
            "persistent = DIR/persistent\nmeta = DIR/meta\naggregated = true\n",
            &["persistent/ring-agg-", "persistent/ring.hashes-agg-", "meta/ring-agg-"][..],
        ),
        (&OPEN_MPI, "sync", "ec_interval = 0\n", &["scratch-1/.ring.adjoint-1-"]),
        (&OPEN_MPI, "sync", "persistent = DIR/persistent\n", &["persistent/ring-2-"]),
        (
            &MPICH,
            "async",
            "persistent = DIR/persistent\nchksum = true\nmeta = DIR/meta\n",
            &["meta/ring-1-"],
        ),
        (
            &MPICH,
            "sync",
            "persistent = DIR/persistent\nmeta = DIR/meta\naggregated = true\n",
            &["persistent/ring.adjoint-agg-"],
        ),
        (
            &MPICH,
            "async",
            "ec_interval = 0\n",
            &["scratch-0/.ring-0-", "scratch-2/.ring.hashes-2-"],
        ),
    ];
    for (nth, (mpi, mode, more, kinds)) in cases(2, all).enumerate() {
        // The processes come to the discard in one order or the other.
        let reverse = nth % 2;
        let job = Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\n{more}"));
        let run = |arguments: &str| {
            Some(ring(mpi, &job, 3, &format!("lone=1 verify=1 {arguments}"))?.succeed())
        };
        if run("own=2 kinds=c times=1 at=700 leave=1").is_none() {
            continue;
        }
        let there = left(&job);
        let names = ["scratch-0/ring-0-", "scratch-1/ring.adjoint-1-", "scratch-2/ring.hashes-2-"];
        for kind in names.iter().chain(kinds) {
            assert!(there.iter().any(|name| name.starts_with(kind)), "{kind}: {there:?}");
        }
        run(&format!("discard=1 reverse={reverse} leave=1")).unwrap();
        wait_for_backends(&job);
        assert_eq!(left(&job), [""; 0], "{mode}, {more}");
        let own = capi_tests::job::names(&job.path("scratch-1"));
        assert!(own.iter().any(|name| name.starts_with("own-1-")), "{own:?}");
        let ended = run("").unwrap();
        assert_eq!(ended.figure("first"), 300, "{}", ended.stdout);
    }
}

/// A discard in the job in which the run has failed, while its checkpoints are still being written.
/// Catches a discard that looks at files alone, after which others come to their places.
#[test]
fn what_is_on_its_way_is_discarded() {
    for (mpi, more) in cases(1, [(&OPEN_MPI, ""), (&MPICH, "ec_interval = 0\n")]) {
        let job = Job::new(&format!(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n{more}"
        ));
        let arguments = "lone=1 verify=1 bytes=300000 kinds=c times=3 at=250 behind=1 leave=1";
        let Some(run) = ring(mpi, &job, 3, arguments) else { continue };
        run.succeed();
        wait_for_backends(&job);
        assert_eq!(left(&job), [""; 0], "{more}");
    }
}

/// One process has a checkpoint of the application's own under one of the run's names: all are told
/// to give the run another name, and no message advises a call that is refused for the same reason.
#[test]
fn nobody_is_sent_to_a_discard_that_is_refused() {
    for mpi in every_mpi() {
        for name in ["ring", "ring.adjoint", "ring.hashes"] {
            let job = Job::new("mode = async\nscratch = DIR/scratch\n");
            let Some(run) = ring(mpi, &job, 2, &format!("mine={name} leave=1")) else { continue };
            run.succeed();
            assert_eq!(names(&job.path("scratch-1")), [format!("{name}-1-3.dat")]);
        }
    }
}
