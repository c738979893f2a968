//! Adjoint computations of which one process has no room for as many states as there are slots. What is checked
//! in the processes stands in `mpi/ring.c`.

use capi_tests::ground::Ground;
use capi_tests::job::Job;
use capi_tests::run::Ended;

use crate::apart::ring;
use crate::mpi::{Mpi, MPICH, OPEN_MPI};

const PLAN: &str = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1";

/// Steps of a run with so many slots, and all the memory it wants.
fn steps_with(mpi: &'static Mpi, slots: u64) -> Option<u64> {
    let job = Job::new("mode = async\nephemeral = true\n");
    let run = ring(mpi, &job, 2, &format!("{PLAN} lone=1 slots={slots}"))?;
    Some(run.succeed().figure("computed"))
}

/// The numbers of slots that a run has said to go on with, on whichever process.
fn said(ended: &Ended) -> Vec<u64> {
    let number = |line: &str| {
        line.split("the run goes on with ").nth(1)?.split(" slots instead of").next()?.parse().ok()
    };
    ended.stderr.lines().filter_map(number).collect()
}

/// One process has memory, or files, or both, for fewer states than there are slots: all go on with as many as
/// it has room for, and take the steps that these take, or little more. Whether each step needs one of the
/// others, and whatever MPI it is. Catches processes whose steps are not the same any more, which would wait for each other or
/// end with a wrong adjoint; slots that become fewer with each state; and a run that fails.
#[test]
fn all_go_on_with_the_slots_of_one() {
    let ephemeral = "mode = async\nephemeral = true\n";
    let async_files = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 220K\n";
    let sync_files = "mode = sync\nscratch = DIR/scratch\n";
    for (mpi, configuration, room, more, fewest) in [
        (&OPEN_MPI, ephemeral, None, "memory=1 narrow=650 lone=1", 6),
        (&MPICH, ephemeral, None, "memory=1 narrow=450", 4),
        (&MPICH, ephemeral, Some(350_000), "narrow=220", 4),
        (&OPEN_MPI, async_files, Some(650_000), "lone=0", 5),
        (&MPICH, async_files, Some(650_000), "lone=1", 5),
        (&OPEN_MPI, sync_files, Some(650_000), "lone=0", 5),
        (&MPICH, sync_files, Some(450_000), "lone=1", 3),
    ] {
        let job = Job::new(configuration);
        let Some(run) = ring(mpi, &job, 2, &format!("{PLAN} slots=12 {more}")) else { continue };
        let ground = room.map(|room| Ground::injected(&job, "scratch-1", room));
        let run = ground.iter().fold(run, |run, ground| ground.under(run));
        let ended = run.succeed();
        let (said, computed) = (said(&ended), ended.figure("computed"));
        println!("{configuration}{more}: slots {said:?}, {computed} steps");
        let last = said.last().copied().unwrap_or(12);
        assert!((fewest..12).contains(&last), "{}", ended.stderr);
        assert!(said.windows(2).all(|two| 2 * two[1] <= two[0]), "{}", ended.stderr);
        let ideal = steps_with(mpi, fewest).unwrap();
        assert!(computed < ideal + ideal / 4, "{computed}, and not {ideal}: {}", ended.stderr);
    }
}

/// The same, and a callback fails, or the run stops, in between: the next run goes on from what all have. Catches
/// a stop that stores its state in another place on the process that has no room, and one that counts on a state
/// that a process has kept aside alone.
#[test]
fn what_all_have_is_gone_on_from() {
    for (mpi, more) in [
        (&OPEN_MPI, "kinds=c times=12 within=150 seed=3"),
        (&MPICH, "kinds=c times=12 within=150 seed=4"),
        (&MPICH, "stop=0:90"),
        (&OPEN_MPI, "stop=1:110"),
    ] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let arguments = format!("{PLAN} slots=12 lone=1 {more}");
        let Some(run) = ring(mpi, &job, 2, &arguments) else { continue };
        let ended = Ground::injected(&job, "scratch-1", 650_000).under(run).succeed();
        println!("{more}: slots {:?}, {}", said(&ended), ended.stdout);
        assert!(!said(&ended).is_empty(), "{}", ended.stderr);
        assert!(!ended.stderr.contains("MPI_Abort"), "{}", ended.stderr);
    }
}

/// The same with parities, of which there are none of a state that goes before they are made, nor of one that the
/// full directory has no room for: that is said once by each process. Catches a word on each state.
#[test]
fn states_without_parities_are_said_once() {
    for mpi in [&OPEN_MPI, &MPICH] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\nec_interval = 0\n");
        let Some(run) = ring(mpi, &job, 3, &format!("{PLAN} slots=12 lone=1")) else { continue };
        let ended = Ground::injected(&job, "scratch-1", 850_000).under(run).succeed();
        assert!(!said(&ended).is_empty(), "{}", ended.stderr);
        let without = ended.stderr.matches("no parities of checkpoint \"ring\" version").count();
        assert!(without <= 3, "{without}: {}", ended.stderr);
    }
}
