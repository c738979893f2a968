//! Adjoint computations with too little: memory for fewer states than there are slots, and jobs
//! that are over before the next state is stored.

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{names, Job};

use crate::adjoint_failures::ring;
use crate::mpi::{MPICH, OPEN_MPI};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";

/// Memory for fewer states than slots, and no files: the call is refused before the first step,
/// with as many states as there is room for, and with so many slots it succeeds. Catches a check
/// that ignores the overhead of every state, and states that keep room when their slot is reused.
#[test]
fn memory_for_fewer_states() {
    let plan = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1";
    for kilobytes in [250_u64, 450, 650] {
        let job =
            Job::new(&format!("mode=async\nephemeral=true\nhost_cache_size = {kilobytes}K\n"));
        let fits = kilobytes * 1024 / 106_496;
        let wanted = fits + 1;
        let words = format!(
            "slots_=_{wanted}|{wanted}_states_of_100016_bytes|has_room_for_{fits},|ask_for_fewer_slots"
        );
        let refused = job.run("sweep", &format!("{plan} slots={wanted} expect={words}")).succeed();
        assert_eq!(refused.figure("computed"), 0);
        job.run("sweep", &format!("{plan} slots={fits}")).succeed();
    }
    // As many slots as possible, of which a short sweep uses few.
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 450K\n");
    job.run("sweep", "steps=4 slots=1000 bytes=100000 distance=0 adjoint=0").succeed();
}

/// Jobs that end after few steps, in a sweep with few slots: each goes on where the one before was, forward
/// and reverse, so that all together take not one step more than one that is not stopped. Catches a stop that
/// drops the state that it has when all slots are in use, from which no number of jobs comes to an end.
#[test]
fn a_chain_of_short_jobs_comes_to_its_end() {
    for (plan, every) in [
        ("steps=60 slots=1 distance=0 adjoint=0", 40),
        ("steps=150 slots=3 distance=0 adjoint=0", 25),
        ("steps=150 slots=3 distance=50 adjoint=12 verify=1", 25),
        ("steps=20 slots=2 distance=0 adjoint=5", 1),
        ("steps=150 slots=4 distance=0 adjoint=12 rule=2", 30),
    ] {
        let whole = Job::new(ASYNC).run("sweep", plan).succeed().figure("computed");
        let job = Job::new(ASYNC);
        let (mut computed, mut jobs) = (0, 0);
        loop {
            let ended = job.run("sweep", &format!("{plan} stop={every}")).succeed();
            computed += ended.figure("computed");
            jobs += 1;
            if !ended.stdout.contains("stopped\n") {
                break;
            }
            assert!(jobs <= whole / every + 1, "{plan}: {computed} steps, and {whole} do");
        }
        println!("{plan}: {jobs} jobs, {computed} steps, without stops {whole}");
        assert!(computed <= whole, "{plan}: {computed} steps, and {whole} do");
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()), [""; 0], "{plan}");
    }
}

/// Short jobs of several processes, each with files of its own: all store the state at which they
/// stop in the same place. Catches places that follow from what a single process has.
#[test]
fn ranks_come_to_their_end_in_short_runs() {
    for (mpi, more) in [(&OPEN_MPI, "lone=1"), (&MPICH, "verify=1")] {
        let plan = format!("steps=500 slots=3 distance=0 adjoint=0 {more}");
        let run = |stop: &str| {
            let job = Job::new(ASYNC);
            let ended = ring(mpi, &job, 2, &format!("{plan} stop={stop}"))?.succeed();
            Some([ended.figure("computed"), ended.figure("stopped")])
        };
        let (Some([whole, 0]), Some([computed, stops])) = (run("0:0"), run("1:60")) else {
            continue;
        };
        println!("{plan}: {computed} steps in {stops} runs, without stops {whole}");
        assert!(computed <= whole && stops > 5, "{computed}, {stops} stops; {whole} steps do");
    }
}

/// A chain of jobs of which some are killed on their way: the next job goes on from the state of
/// the last stop, as often as needed. Catches a restart that takes the state of a stop for a
/// slot's, or overwrites it too soon.
#[test]
fn killed_between_stops() {
    let plan = "steps=150 slots=3 distance=0 adjoint=12 verify=1";
    let job = Job::new(ASYNC);
    let mut jobs = 0;
    loop {
        jobs += 1;
        assert!(jobs < 200, "no end after {jobs} jobs");
        if jobs % 3 == 0 {
            let fails = format!("{plan} fail=20 expect=returned_-1");
            if !job.run("sweep", &fails).end().status.success() {
                break;
            }
            continue;
        }
        let ended = job.run("sweep", &format!("{plan} stop=30")).succeed();
        if !ended.stdout.contains("stopped\n") {
            break;
        }
    }
    job.run("sweep", plan).succeed();
}

/// A time limit that is over with the first step is reported, with the time of the step. Catches a
/// chain of jobs that goes on for ever and never says why.
#[test]
fn a_limit_that_is_too_short_is_said() {
    let job = Job::new(ASYNC);
    let ended = job.run("sweep", "limit=1 slow=5").succeed();
    assert!(ended.stdout.contains("stopped\n"), "{}", ended.stdout);
    assert_eq!(ended.figure("computed"), 1);
    let said = ended.stderr.matches("time_limit = 0.001 s was over after one step").count();
    assert_eq!(said, 1, "{}", ended.stderr);
    let ended = job.run("sweep", "stop=20").succeed();
    assert!(!ended.stderr.contains("time_limit"), "{}", ended.stderr);
}
