//! Adjoint computations with less than they would like: memory for fewer states than there are slots, and jobs
//! that are over before the next state is stored.

use capi_tests::backends::wait_for_backends;
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::run::Ended;

use crate::apart::ring;
use crate::mpi::{MPICH, OPEN_MPI};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";

/// The numbers of slots that a run has gone on with.
fn slots(ended: &Ended) -> Vec<u64> {
    let lines = ended.stderr.lines().filter(|line| line.contains("the run goes on with"));
    let number = |line: &str| {
        line.split("goes on with ").nth(1)?.split(" slots instead of").next()?.parse().ok()
    };
    lines.filter_map(number).collect()
}

/// Steps of a run with so many slots, and all the memory it wants.
fn steps_with(slots: u64, plan: &str) -> u64 {
    let job = Job::new("mode = async\nephemeral = true\n");
    job.run("sweep", &format!("{plan} slots={slots}")).succeed().figure("computed")
}

/// Memory for fewer states than slots, and no files: the steps are those of as many slots as there is room
/// for, or little more. Catches states that the adjoint has passed and that keep their room, for which the
/// run loses one slot after the other, down to one.
#[test]
fn memory_for_fewer_states() {
    let plan = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1";
    for (kilobytes, wanted) in [(250, 6), (450, 6), (550, 6), (650, 6), (650, 12)] {
        let job =
            Job::new(&format!("mode=async\nephemeral=true\nhost_cache_size = {kilobytes}K\n"));
        let ended = job.run("sweep", &format!("{plan} slots={wanted}")).succeed();
        let fits = (kilobytes * 1024 / 106_496).min(wanted);
        let expected: Vec<u64> = (fits < wanted).then_some(fits).into_iter().collect();
        assert_eq!(slots(&ended), expected, "{}", ended.stderr);
        let (computed, ideal) = (ended.figure("computed"), steps_with(fits, plan));
        println!("{kilobytes}K for {wanted} slots: {computed} steps, with {fits} slots {ideal}");
        assert!(computed >= ideal && computed < ideal + ideal / 8, "{computed}, and not {ideal}");
    }
}

/// Files that have room for few states, and memory for one or two beside: what the adjoint has passed gives its room
/// to what comes, and each loss of a slot is logged. Catches states of no use that fill files for good, with
/// which the slots become fewer with each state that is passed.
#[test]
fn files_for_fewer_states() {
    let plan = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1 slots=12";
    let job = Job::new(&format!("{ASYNC}host_cache_size = 220K\n"));
    let grounds = [
        Some(Ground::injected(&job, "scratch", 650_000)),
        Ground::mounted(&job, "scratch", 650_000),
    ];
    for ground in grounds.iter().flatten() {
        let ended = ground.under(job.run("sweep", plan).env("VELOC_LOG", "info")).succeed();
        let (said, computed) = (slots(&ended), ended.figure("computed"));
        println!("slots {said:?}: {computed} steps");
        let fewest = said.iter().copied().min().unwrap_or(12);
        assert!(fewest >= 6, "{}", ended.stderr);
        assert!(said.windows(2).all(|two| two[1] < two[0]), "{}", ended.stderr);
        let ideal = steps_with(fewest, plan);
        assert!(computed < ideal + ideal / 4, "{computed}, and not {ideal}: {}", ended.stderr);
    }
}

/// An ephemeral job whose scratch directory becomes full: what is there stays, and the run goes on with as many
/// slots as there is room for in memory and there. Catches states in files of that job's own that are taken for
/// lost as soon as another one cannot be written, without which there is no way on; and a word of what a crash
/// would cost, which costs such a job everything.
#[test]
fn a_full_directory_of_an_ephemeral_job() {
    let plan = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1";
    for (room, fits) in [(0, 2), (250_000, 4), (350_000, 5), (650_000, 8)] {
        let job = Job::new(
            "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 220K\n",
        );
        let ended = Ground::injected(&job, "scratch", room)
            .under(job.run("sweep", &format!("{plan} slots=12")))
            .succeed();
        let (said, computed) = (slots(&ended), ended.figure("computed"));
        println!("room for {room} bytes: slots {said:?}, {computed} steps");
        assert_eq!(said.len(), 1, "{}", ended.stderr);
        assert!((fits..=fits + 1).contains(&said[0]), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.matches("No space left on device (os error 28): the run").count(),
            1
        );
        assert!(!ended.stderr.contains("a crash would"), "{}", ended.stderr);
        let ideal = steps_with(said[0], plan);
        assert!(computed < ideal + ideal / 4, "{computed}, and not {ideal}: {}", ended.stderr);
    }
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

/// The same with several processes, each with files of its own: all store the state at which they stop in the
/// same place. Catches places that follow from what a process alone has.
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

/// A chain of jobs of which some are killed on their way: what a stop has left is gone on from as often as
/// needed. Catches a restart that takes the state of a stop for a slot's, or overwrites it too soon.
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

/// A limit that is over with the first step is said, with what the step took. Catches a chain of jobs that
/// goes on for ever and never says why.
#[test]
fn a_limit_that_is_too_short_is_said() {
    let job = Job::new(ASYNC);
    let ended = job.run("sweep", "limit=1 slow=5").succeed();
    assert!(ended.stdout.contains("stopped\n"), "{}", ended.stdout);
    assert_eq!(ended.figure("computed"), 1);
    let said = ended.stderr.matches("time_limit = 0.001 s is over with the first step").count();
    assert_eq!(said, 1, "{}", ended.stderr);
    let ended = job.run("sweep", "stop=20").succeed();
    assert!(!ended.stderr.contains("time_limit"), "{}", ended.stderr);
}
