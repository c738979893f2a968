//! Adjoint computations that verify their states: those that a step, a file or a hash has changed.

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{files, names, Job};

use super::ASYNC;

/// A hash that the callback does not give: the error names the state, and where it was.
#[test]
fn a_hash_that_fails() {
    let job = Job::new("mode = async\nephemeral = true\n");
    let words = "the_callback_hash,_of_state_42,_returned_-1";
    job.run("sweep", &format!("verify=1 hash=1 unhashed=42 expect={words}")).succeed();
}

/// Forward steps with different results each time. Catches a comparison with the wrong state, and a
/// comparison that comes too late: the first state that differs is named.
#[test]
fn replays_are_verified() {
    let job = Job::new(ASYNC);
    for hash in 0..2 {
        let plan = format!("verify=1 hash={hash} drift=77");
        job.run("sweep", &format!("{plan} expect=state_77_is_not_what_it_was")).succeed();
        // The first state of the next run is compared with the one in the store.
        job.run("sweep", &format!("verify=1 hash={hash}")).succeed();
    }
}

/// A callback that gives another hash for the same state: the error blames the callback, not the
/// steps, and stored states stay. Catches steps and files that are taken for wrong, where a state
/// is met twice in the first sweep (77) and where one is restored (120).
#[test]
fn hashes_that_are_none_are_blamed_on_the_callback() {
    for after in [0, 77, 120] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let words = "hashed_twice_in_a_row_it_gave_0x|the_callback_`hash`_must_give_the_same";
        let plan = format!("verify=1 hash=1 unsteady={after} expect={words}");
        let ended = job.run("sweep", &plan).succeed();
        assert!(!ended.stderr.contains("damaged"), "{after}: {}", ended.stderr);
        let states = || {
            let mut names = names(&job.scratch());
            names.retain(|name| name.starts_with("sweep-0-"));
            names
        };
        let before = states();
        assert_eq!(before.len(), [0, 3, 5][usize::from(after > 0) + usize::from(after > 77)]);
        // A state of the first sweep may be stored with such a hash: the next job computes it
        // again.
        job.run("sweep", "hash=1").succeed();
        assert_eq!(states(), [""; 0]);
    }
}

/// A hash of state 0 that differs at a restart, and a hash of another function than in the job
/// before: both leave the store as it was. Catches a store that is taken for another computation's
/// without a second look, and a refusal that does not say what else may be the reason.
#[test]
fn hashes_of_state_0_at_a_restart() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("sweep", "verify=1 hash=1 fail=170 expect=returned_-1").succeed();
    let stored = files(&job.scratch());
    let words = "state_0:_hashed_twice_in_a_row|the_callback_`hash`_must_give_the_same";
    job.run("sweep", &format!("verify=1 hash=1 unsteady=0 expect={words}")).succeed();
    let words = "another_computation,_or_it_was_hashed_by_another_function";
    job.run("sweep", &format!("verify=1 expect={words}")).succeed();
    assert_eq!(files(&job.scratch()), stored);
    job.run("sweep", "verify=1 hash=1").succeed();
}

/// A step gives another state in a later job than in the first, between two stored states. Catches
/// hashes that end with the job: the later job would have a wrong adjoint.
#[test]
fn replays_are_compared_with_what_earlier_jobs_have_met() {
    for mode in ["sync", "async"] {
        for fail in [80, 130, 190] {
            let job = Job::new(&ASYNC.replace("async", mode));
            let run = |more: &str| job.run("sweep", &format!("verify=1 {more}"));
            run(&format!("fail={fail} expect=returned_-1")).succeed();
            let hashes =
                names(&job.scratch()).into_iter().filter(|n| n.starts_with("sweep.hashes-"));
            let hashes: Vec<String> = hashes.collect();
            assert!(hashes.len() > 1, "{hashes:?}");
            run("drift=47 drifted=1 expect=state_47_is_not_what_it_was").succeed();
            // A lost file is not compared, and no reason to stop.
            std::fs::write(job.scratch().join(&hashes[0]), b"x").unwrap();
            let ended = run("").succeed();
            assert!(ended.stderr.contains("going on without"), "{}", ended.stderr);
            wait_for_backends(&job);
            assert_eq!(names(&job.scratch()), [""; 0]);
        }
    }
}

/// A damaged file is passed over: the others are enough.
#[test]
fn damaged_states() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    for damaged in ["sweep-0-0.dat", "sweep-0-2.dat", "sweep.adjoint-0-ADJOINT.dat"] {
        job.run("sweep", "fail=170 expect=returned_-1").succeed();
        let newest =
            names(&job.scratch()).into_iter().filter(|n| n.starts_with("sweep.adjoint")).max();
        let damaged = damaged.replace("sweep.adjoint-0-ADJOINT.dat", &newest.unwrap());
        std::fs::write(job.scratch().join(&damaged), b"x").unwrap();
        let ended = job.run("sweep", "").succeed();
        assert!(ended.stderr.contains("going on without"), "{damaged}: {}", ended.stderr);
    }
    // Several damaged files are reported once, with their number.
    job.run("sweep", "fail=170 expect=returned_-1").succeed();
    let states = names(&job.scratch()).into_iter().filter(|name| name.starts_with("sweep-0-"));
    let states: Vec<String> = states.collect();
    states.iter().for_each(|name| std::fs::write(job.scratch().join(name), b"x").unwrap());
    let ended = job.run("sweep", "").succeed();
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(states.len() == 5 && lines.len() == 1, "{states:?}: {}", ended.stderr);
    let words =
        ["without 5 versions: \"sweep\" version 0: ", "\"sweep\" version 2: ", "and 2 more"];
    assert!(words.iter().all(|word| lines[0].contains(word)), "{}", ended.stderr);
}

/// A bit of a stored file changes, in any file, with the default configuration. Catches a gradient
/// that is wrong without a message: the program checks every state and its result.
#[test]
fn bits_that_change_in_files_are_found() {
    let run = |job: &Job, more: &str| job.run("sweep", more).succeed();
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    run(&job, "fail=170 expect=returned_-1");
    let stored = names(&job.scratch());
    assert!(stored.len() > 5, "{stored:?}");
    for name in &stored {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        run(&job, "fail=170 expect=returned_-1");
        change_a_bit(&job.scratch().join(name));
        let ended = run(&job, "");
        assert!(ended.stderr.contains("its proof says"), "{name}: {}", ended.stderr);
    }
    for name in &stored {
        change_a_bit(&job.scratch().join(name));
    }
    run(&job, "");
}

/// Changes a bit in the middle of a file.
fn change_a_bit(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// A bit of a stored state or adjoint changes where there is no proof: a verified run, also of a
/// later job, names the state, and computes it again, at once or when it is called once more.
/// Catches hashes that are not stored with their states. Unneeded files are not read, and do no
/// harm.
#[test]
fn bits_that_change_in_files() {
    let configuration = "mode = sync\nscratch = DIR/scratch\nproof = off\n";
    let run = |job: &Job, more: &str| job.run("sweep", &format!("verify=1 {more}"));
    let stored = {
        let job = Job::new(configuration);
        run(&job, "fail=170 expect=returned_-1").succeed();
        names(&job.scratch())
    };
    let mut found = Vec::new();
    for name in &stored {
        let job = Job::new(configuration);
        run(&job, "fail=170 expect=returned_-1").succeed();
        let path = job.scratch().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let ended = run(&job, "").end();
        let number = i64::from_le_bytes(bytes[last - 15..last - 7].try_into().unwrap());
        let text = match name.starts_with("sweep.adjoint") {
            true => "the adjoint at state ".to_owned(),
            false => format!("state {number} has the hash "),
        };
        if !ended.status.success() {
            assert!(ended.stdout.contains(&text), "{name}: {}", ended.stdout);
            // The run does not come to the damaged file again.
            run(&job, "").succeed();
        } else if !ended.stderr.contains(&text) {
            continue;
        }
        found.push(text);
    }
    println!("{found:#?}");
    assert!(found.len() > 2 && found.iter().any(|text| text.starts_with("the adjoint")));
}

/// Files of a run without hashes, damaged, and a run that verifies: state 0 is as it is at the call.
#[test]
fn what_was_damaged_before_is_not_what_the_program_computes() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\nproof = off\n");
    job.run("sweep", "bytes=8 fail=170 expect=returned_-1").succeed();
    let path = job.scratch().join("sweep-0-0.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    job.run("sweep", "bytes=8 verify=1 expect=restored_from_slot_0|damaged_there").succeed();
    job.run("sweep", "bytes=8 verify=1").succeed();
}
