//! Adjoint computations of which one process has no room for a state: all processes end, and none
//! is waited for. The processes check this in `mpi/adjoint_failures.c`.

use capi_tests::depth::cases;
use capi_tests::ground::Ground;
use capi_tests::job::Job;

use crate::adjoint_failures::ring;
use crate::mpi::{MPICH, OPEN_MPI};

const PLAN: &str = "steps=400 bytes=100000 distance=0 adjoint=0 verify=1 slots=12";

/// One process has memory, or files, or both, for fewer states than there are slots: it says which
/// state it cannot store and why, the others who has failed, and with room the same call goes on,
/// or begins anew where nothing outlives the job. This holds whether or not each step needs another
/// process, and with any MPI. Catches a process that ends alone while the others wait for its next
/// step, and a process that goes on from a state that not all have.
#[test]
fn who_has_no_room_ends_the_run_of_all() {
    let ephemeral = "mode = async\nephemeral = true\n";
    let async_files = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 220K\n";
    let sync_files = "mode = sync\nscratch = DIR/scratch\n";
    let (memory, files) = ("memory has room for", "No space left");
    let all = [
        (&OPEN_MPI, ephemeral, None, "memory=1 narrow=650 lone=1", memory),
        (&OPEN_MPI, async_files, Some(650_000), "lone=0", files),
        (&OPEN_MPI, sync_files, Some(650_000), "lone=0", files),
        (&MPICH, ephemeral, None, "memory=1 narrow=450", memory),
        (&MPICH, ephemeral, Some(350_000), "narrow=220", files),
        (&MPICH, async_files, Some(650_000), "lone=1", files),
        (&MPICH, sync_files, Some(450_000), "lone=1", files),
    ];
    for (mpi, configuration, room, more, words) in cases(3, all) {
        let job = Job::new(configuration);
        let Some(run) = ring(mpi, &job, 2, &format!("{PLAN} {more}")) else { continue };
        let run = run.arg(format!("refused=1:{words}"));
        let ground = room.map(|room| Ground::injected(&job, "scratch-1", room));
        let run = ground.iter().fold(run, |run, ground| ground.under(run));
        let ended = run.succeed();
        assert!(!ended.stderr.contains("MPI_Abort"), "{}", ended.stderr);
        let lone = if more.contains("lone=1") { "lone=1" } else { "" };
        ring(mpi, &job, 2, &format!("{PLAN} {lone}")).unwrap().succeed();
    }
}
