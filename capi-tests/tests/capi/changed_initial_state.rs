//! Adjoint computations that are called again with another state 0 than in the first job, as with a
//! changed model and the same tag. The checks are in `programs/changed_initial_state.c`.

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{files, names, Job};
use capi_tests::program::mpi_program;
use capi_tests::run::{Ended, Run};

use crate::mpi::{every_mpi, Mpi};

const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";
const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";

/// The library's messages except errors, which the programs check themselves, the notice about the
/// software device, and the one about huge pages.
fn said(ended: &Ended) -> Vec<&str> {
    let others = [": error: ", "software stand-in", "shmem_enabled"];
    let of_others = |line: &&str| !others.iter().any(|other| line.contains(other));
    ended.complaints().into_iter().filter(of_others).collect()
}

/// Asserts that a difference of bytes is the only message.
fn warned(ended: &Ended, words: &[&str]) {
    assert_eq!(said(ended).len(), 1, "{}", ended.stderr);
    let all = ["\"edited\" (tag 7)", "is not state 0 of the store", "VELOC_Adjoint_discard"];
    for word in words.iter().chain(&all) {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
}

/// Asserts that the run has gone on without a message.
fn silent(ended: &Ended) {
    assert!(said(ended).is_empty(), "{}", ended.stderr);
    assert!(ended.stdout.contains("right, went on\n"), "{}", ended.stdout);
}

/// A job of which a run was killed, in the first sweep or in the reverse one.
fn killed(configuration: &str, plan: &str) -> Job {
    let job = Job::new(configuration);
    let ended = job.run("changed_initial_state", plan).end();
    assert!(!ended.status.success() && ended.complaints().is_empty(), "{}", ended.stderr);
    wait_for_backends(&job);
    assert!(names(&job.scratch()).contains(&"edited-0-0.dat".to_owned()));
    job
}

/// Bytes differ: the run goes on, and warns. Catches a restart from the store of another model
/// without a warning, and a warning where nothing differs.
#[test]
fn another_state_0_is_said() {
    for configuration in [SYNC, ASYNC] {
        for die in [35, 80] {
            let plan = format!("die={die}");
            let ended =
                killed(configuration, &plan).run("changed_initial_state", "edit=1").succeed();
            let text = "1 of the 16 bytes of region 0 differ, the first is byte 8;";
            warned(&ended, &[text]);
            assert!(ended.stdout.contains("wrong, went on\n"), "{}", ended.stdout);
            let both = killed(configuration, &plan)
                .run("changed_initial_state", "edit=1 noise=3")
                .succeed();
            warned(
                &both,
                &[text, "; 1 of the 100 bytes of region 1 differ, the first is byte 99;"],
            );
            silent(&killed(configuration, &plan).run("changed_initial_state", "").succeed());
        }
    }
}

/// More bytes than are compared at a time. Catches a place that is counted from where a piece
/// begins, and a rest that is not compared.
#[test]
fn bytes_are_counted_from_the_beginning_of_their_region() {
    let plan = "steps=6 bytes=40000001";
    let job = killed(SYNC, &format!("{plan} die=5"));
    let ended = job.run("changed_initial_state", &format!("{plan} noise=200")).succeed();
    warned(&ended, &["1 of the 40000001 bytes of region 1 differ, the first is byte 40000000;"]);
}

/// State 0 was stored with a hash of the application's: another state is refused, which changes
/// neither the store nor the state; bytes that the hash leaves out do not matter. A state 0 with a
/// hash of the library's is refused by any other hash. Catches a hash of the library's that is
/// taken for one of the application's, a first job that stores its hash only if replays are
/// verified, and a run that begins anew with the state of the store.
#[test]
fn another_state_0_is_refused_by_its_hash() {
    for first in ["hash=1", "verify=1", "verify=1 hash=1"] {
        for second in ["hash=1", "verify=1 hash=1"] {
            let is_strange = first == "verify=1";
            let job = killed(SYNC, &format!("die=80 {first}"));
            let before = files(&job.scratch());
            let words = match is_strange {
                true => "tag_7|0x000000000000002c|by_another_function|left_as_it_is",
                false => "tag_7|0x000000000000002c|0x000000000000002a|left_as_it_is|another_name",
            };
            let refused = format!("{second} edit=2 noise=1 expect={words}|VELOC");
            assert!(said(&job.run("changed_initial_state", &refused).succeed()).is_empty());
            assert!(before == files(&job.scratch()), "{first}, {second}");
            if !is_strange {
                silent(&job.run("changed_initial_state", &format!("{second} noise=1")).succeed());
            }
            let job = killed(SYNC, &format!("die=80 {first}"));
            job.run("changed_initial_state", &format!("{refused} discard=1")).succeed();
            assert_eq!(names(&job.scratch()), [""; 0]);
        }
    }
}

/// State 0 was stored without a hash, and the next job has a hash function: the bytes are compared.
/// Catches a hash that is compared with none.
#[test]
fn a_state_0_without_a_hash_is_compared_by_its_bytes() {
    silent(&killed(SYNC, "die=80").run("changed_initial_state", "hash=1").succeed());
    let ended = killed(SYNC, "die=80").run("changed_initial_state", "hash=1 edit=2").succeed();
    warned(&ended, &["1 of the 16 bytes of region 0 differ, the first is byte 8;"]);
}

/// Within one job, with states in memory alone or in files, and in device memory as well. Catches
/// device memory that is not compared, or left as it is in the store.
#[test]
fn wherever_states_are() {
    for device in [false, true] {
        let cache = if device { "gpu_cache_size = 4M\n" } else { "" };
        let memory = format!("{cache}host_cache_size = 4M\n");
        let ephemeral = format!("mode = async\nephemeral = true\n{memory}");
        for configuration in [ephemeral, format!("{ASYNC}{memory}"), SYNC.to_owned()] {
            let run = |plan: &str| {
                let job = Job::new(&configuration);
                let plan = format!("bytes=10000 device={} {plan}", u8::from(device));
                let run = job.run("changed_initial_state", &plan);
                if device { run.with_device() } else { run }.succeed()
            };
            for once in [35, 80] {
                silent(&run(&format!("once={once}")));
                silent(&run(&format!("once={once} noise=1 hash=1")));
                let ended = run(&format!("once={once} noise=1"));
                warned(
                    &ended,
                    &["1 of the 10000 bytes of region 1 differ, the first is byte 9999;"],
                );
                assert!(ended.stdout.contains("right, went on\n"), "{}", ended.stdout);
                let words = "0x000000000000002b|0x000000000000002a";
                run(&format!("once={once} edit=1 noise=1 hash=1 expect={words} discard=1"));
            }
        }
    }
}

/// The file of state 0 is lost before the comparison: the run goes on as far as it can, ends with
/// the state that it cannot read, and the next call has state 0. Catches a restart that fails for
/// the comparison.
#[test]
fn a_state_0_that_cannot_be_read() {
    let job = killed(SYNC, "die=80");
    let words = "state_0_cannot_be_read_back_from_slot_0|\"edited\"_version_0";
    let plan = format!("hash=1 lose=DIR/scratch/edited-0-0.dat expect={words}");
    let ended = job.run("changed_initial_state", &plan).succeed();
    let text = "state 0 of the store cannot be compared with the state at the call: ";
    assert_eq!(ended.stderr.matches(text).count(), 1, "{}", ended.stderr);
    let ended = job.run("changed_initial_state", "hash=1").succeed();
    assert!(ended.stdout.contains("right\n") && ended.stderr.is_empty(), "{}", ended.stderr);
}

/// A run of several processes, if this MPI is installed.
fn of_two(mpi: &Mpi, job: &Job, plan: &str) -> Option<Run> {
    let run = mpi.start(2)?.arg(mpi_program(mpi.compiler, "changed_initial_state.c"));
    Some(run.arg(job.path("veloc.cfg")).args(plan))
}

/// One process of two has another state 0, or both have: all are refused, or one warns for all.
/// Catches a process that goes on alone, or is waited for, and a warning of each process.
#[test]
fn of_several_processes() {
    for mpi in every_mpi() {
        let run = |plan: &str| {
            let job = Job::new(SYNC);
            let hash = if plan.contains("hash=1") { " hash=1" } else { "" };
            let killed = of_two(mpi, &job, &format!("die=80{hash}"))?.end();
            assert!(!killed.status.success());
            // The backend of the killed run may still be ending.
            wait_for_backends(&job);
            // A process that was killed because of the other one may leave half a file, which is
            // removed.
            let stored = || {
                let mut stored = files(&job.scratch());
                stored.retain(|name, _| name.starts_with("edited"));
                stored
            };
            let before = stored();
            let ended = of_two(mpi, &job, plan)?.succeed();
            Some((ended, before == stored()))
        };
        let Some((same, _)) = run("") else { continue };
        assert_eq!(same.stdout.matches("right, went on\n").count(), 2, "{}", same.stdout);
        assert!(!same.stderr.contains("state 0"), "{}", same.stderr);
        for (plan, who) in [("edit=2 on=1", "process 1: "), ("edit=2", "process 0, and 1 more: ")] {
            let (ended, _) = run(plan).unwrap();
            let lines: Vec<&str> =
                ended.stderr.lines().filter(|line| line.contains("state 0")).collect();
            assert_eq!(lines.len(), 1, "{}", ended.stderr);
            assert!(lines[0].contains(who) && lines[0].contains("of region 0"), "{}", lines[0]);
        }
        let words = "tag_7|0x000000000000002d|0x000000000000002b|left_as_it_is";
        let (_, unchanged) = run(&format!("hash=1 edit=2 on=1 expect={words}")).unwrap();
        assert!(unchanged);
        run(&format!("hash=1 edit=2 on=1 expect={words} discard=1")).unwrap();
        let (silent, _) = run("hash=1 noise=2 on=1").unwrap();
        assert!(!silent.stderr.contains("state 0"), "{}", silent.stderr);
    }
}
