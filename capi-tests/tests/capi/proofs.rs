//! Proofs that a file is the one that was written: damage, exchanged files, files of another job
//! and of other programs, by default and with the keys that change this.

use std::fs;
use std::path::Path;

use capi_tests::checkpoint_file::{content, encode};
use capi_tests::job::{names, Job};
use capi_tests::program::faults;

use super::mpi::every_mpi;

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// Changes one bit of a file in place.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

/// Damage with the default configuration. Catches a flipped bit that is restored without a message,
/// in small files and large ones, and a copy that was made without its proof.
#[test]
fn damage_is_found() {
    for configuration in [ASYNC, SYNC] {
        for size in [3, 100_000, 5_000_000] {
            let job = Job::new(configuration);
            job.run("script", &format!("size={size} take=x:1 take=x:2")).succeed();
            flip(&job.scratch().join("x-0-2.dat"), 20 + size - 1);
            let commands = format!("size={size} newest=x:2 restore=x:2 restore=x:1");
            let ended = job.run("script", &commands).succeed();
            for part in ["scratch/x-0-2.dat: its bytes have XXH3", "another copy"] {
                assert!(ended.stderr.contains(part), "{}", ended.stderr);
            }
            flip(&job.persistent().join("x-0-2.dat"), 20);
            let refused = "refuse=x:2:x-0-2.dat|proof_=_accept";
            let commands = format!("size={size} {refused} newest=x:1 restore=x:1");
            job.run("script", &commands).succeed();
            job.run("script", &format!("size={size} newest=x:1:2 {refused} restore=x:1")).succeed();
        }
    }
}

/// Catches damage that no key lets a restart accept, and a key that also silences the warning.
#[test]
fn what_does_not_fit_can_be_accepted() {
    let job = Job::new(SYNC);
    job.run("script", "take=x:1").succeed();
    for folder in [job.scratch(), job.persistent()] {
        flip(&folder.join("x-0-1.dat"), 1000);
    }
    job.run("script", "newest=x:-1 refuse=x:1:proof_=_accept").succeed();
    job.configure(&format!("{SYNC}proof = accept\n"));
    let ended = job.run("script", "newest=x:1 try=x:1:1").end();
    assert!(ended.stderr.contains("x-0-1.dat: its bytes have XXH3"), "{}", ended.stderr);
    assert!(ended.stderr.contains("restored all the same"), "{}", ended.stderr);
    job.configure(&format!("{SYNC}proof = off\n"));
    let ended = job.run("script", "newest=x:1 try=x:1:1").end();
    assert!(!ended.stderr.contains("x-0-1.dat"), "{}", ended.stderr);
}

/// Files of other ranks, versions and names, also where all have the same length. Catches a file
/// that is taken for another one because nothing in it is damaged.
#[test]
fn exchanged_files_are_found() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    for rank in [0, 1] {
        let takes = format!("rank={rank} take=x:1:{} take=x:2:7 take=y:1:8", rank + 1);
        job.run("script", &takes).succeed();
    }
    for (one, other) in
        [("x-0-1.dat", "x-1-1.dat"), ("x-0-1.dat", "x-0-2.dat"), ("x-0-1.dat", "y-0-1.dat")]
    {
        let [first, second] = [one, other].map(|name| job.scratch().join(name));
        exchange(&first, &second);
        let refused = "refuse=x:1:x-0-1.dat|another_program_has_replaced_it";
        job.run("script", &format!("rank=0 {refused}")).succeed();
        exchange(&first, &second);
        job.run("script", "rank=0 restore=x:1").succeed();
        // Exchanges the content alone, in place.
        let [mine, its] = [&first, &second].map(|path| fs::read(path).unwrap());
        fs::write(&first, its).unwrap();
        job.run("script", "rank=0 refuse=x:1:x-0-1.dat").succeed();
        fs::write(&first, mine).unwrap();
        job.run("script", "rank=0 restore=x:1").succeed();
    }
}

/// Files without a proof, such as upstream's. Catches files that are refused because they have no
/// proof, and a proof that outlives its file and condemns the next one.
#[test]
fn files_without_a_proof_are_accepted() {
    let job = Job::new(SYNC);
    job.run("script", "take=x:1").succeed();
    let other = encode(&[(1, content(1, 9, 100_000))]);
    for folder in [job.scratch(), job.persistent()] {
        let path = folder.join("x-0-1.dat");
        fs::remove_file(&path).unwrap();
        fs::write(path, &other).unwrap();
    }
    job.run("script", "newest=x:1 restore=x:1:9").succeed();
    job.run("script", "take=x:1:5").succeed();
    job.run("script", "newest=x:1 restore=x:1:5").succeed();
}

/// Catches a checkpoint that fails on a file system without attributes, one that reports nothing,
/// and one that reports it for each file; with each reason that a file system may have.
#[test]
fn a_file_system_without_attributes() {
    use libc::{EDQUOT, EINVAL, EIO, ENOSPC, ENOTSUP, EPERM};
    let reasons = [ENOTSUP, EPERM, EINVAL, ENOSPC, EDQUOT, EIO];
    for (configuration, reason) in reasons.iter().flat_map(|no| [(ASYNC, no), (SYNC, no)]) {
        let no_attributes = "keeps no extended attributes";
        let words = if *reason == ENOTSUP { no_attributes } else { "attribute cannot be set" };
        let job = Job::new(&format!("{configuration}threaded = true\n"));
        let run = job
            .run("script", "take=x:1 take=x:2 wait")
            .env("FAULTS_NO_ATTRIBUTES", reason.to_string());
        let run = run.env("FAULTS_IN", job.scratch()).env("LD_PRELOAD", faults(&job.path("")));
        let ended = run.succeed();
        let said = ended.stderr.matches(words).count();
        assert_eq!(said, 1, "{}", ended.stderr);
        job.run("script", "newest=x:2 restore=x:2 restore=x:1").succeed();
    }
}

/// Files of upstream, or of older versions: `chksum = true` and nothing to compare with. Catches a
/// copy that counts as good, where VELOC fails, and one that hides another which can be compared.
#[test]
fn with_checksums_what_cannot_be_checked_is_refused() {
    let job = Job::new(&format!("{SYNC}meta = DIR/meta\nchksum = true\n"));
    job.run("script", "take=x:1 take=x:2").succeed();
    for version in [1, 2] {
        fs::remove_file(job.path(&format!("meta/x-0-{version}.dat.chksum"))).unwrap();
    }
    // Nothing is known of this file; the file in persistent still has its proof.
    let unknown = encode(&[(1, content(1, 9, 100_000))]);
    let replace = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::write(path, &unknown).unwrap();
    };
    replace(&job.scratch().join("x-0-2.dat"));
    let ended = job.run("script", "newest=x:2 restore=x:2 restore=x:1").succeed();
    assert!(ended.stderr.contains("looking for another copy"), "{}", ended.stderr);
    replace(&job.persistent().join("x-0-2.dat"));
    let words = "there_is_neither|x-0-2.dat.chksum|chksum_=_false";
    job.run("script", &format!("newest=x:1 refuse=x:2:{words}")).succeed();
    job.configure(&format!("{SYNC}meta = DIR/meta\nchksum = true\nproof = accept\n"));
    job.run("script", "newest=x:2 restore=x:2:9").succeed();
    job.configure(SYNC);
    job.run("script", "newest=x:2 restore=x:2:9").succeed();
}

/// A version in persistent is taken again; the new file never gets to persistent, and is lost.
/// Catches an old file that is refused by the new one's checksum, which both share.
#[test]
fn taking_a_version_again_costs_no_durable_copy() {
    for mode in [ASYNC, SYNC] {
        let configuration = format!("{mode}meta = DIR/meta\nchksum = true\n");
        let job = Job::new(&configuration);
        job.run("script", "take=x:1 wait").succeed();
        job.configure(&format!("{configuration}persistent_interval = -1\n"));
        job.run("script", "take=x:1:5").succeed();
        // The newer one first, as long as it is there.
        job.run("script", "newest=x:1 restore=x:1:5").succeed();
        fs::remove_file(job.scratch().join("x-0-1.dat")).unwrap();
        job.configure(&configuration);
        let ended = job.run("script", "newest=x:1 restore=x:1:1").succeed();
        assert!(ended.stderr.contains("persistent/x-0-1.dat: it is good"), "{}", ended.stderr);
        // Damage is still found.
        flip(&job.persistent().join("x-0-1.dat"), 1000);
        job.run("script", "newest=x:-1 refuse=x:1:x-0-1.dat").succeed();
    }
}

/// Three processes, then two, then four. Catches files of another number of processes that are
/// restored, and a job that begins anew over them without a message.
#[test]
fn another_number_of_processes() {
    for mpi in every_mpi() {
        let job = Job::new(SYNC);
        let of = |processes: usize, commands: &str| {
            let run = mpi.start(processes)?;
            let run = run.arg(capi_tests::program::mpi_program(mpi.compiler, "script.c"));
            Some(run.arg(job.path("veloc.cfg")).args(commands))
        };
        let Some(run) = of(3, "take=x:1 take=x:2") else { return };
        run.succeed();
        for processes in [2, 4] {
            let commands = "newest=x:-1 refuse=x:2";
            let ended = of(processes, commands).unwrap().succeed();
            let said = format!("of a job of 3 ranks, and this one has {processes}");
            assert!(ended.stderr.contains(&said), "{}", ended.stderr);
        }
        of(3, "newest=x:2 restore=x:2").unwrap().succeed();
        // One process without MPI may look at them, as before.
        job.run("script", "rank=1 newest=x:2 restore=x:2").succeed();
        job.configure(&format!("{SYNC}proof = accept\n"));
        of(2, "newest=x:2 restore=x:2").unwrap().succeed();
        assert_eq!(names(&job.scratch()).len(), 6);
        // A job that never asks is told, and replaces nothing.
        job.configure(SYNC);
        let own = |rank| format!("@{rank}:fail=x:1:of_a_job_of_3_ranks,_and_this_one_has_4 ");
        let commands: String = (0..3).map(own).collect();
        of(4, &format!("{commands} @3:take=x:1")).unwrap().succeed();
        of(3, "newest=x:2 restore=x:1 restore=x:2").unwrap().succeed();
    }
}

/// Catches a part of an aggregated file without a proof, and a part that is taken for another's.
#[test]
fn damage_in_aggregated_files_is_found() {
    let text = "mode = MODE\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n\
                aggregated = true\n";
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&text.replace("MODE", mode));
            let Some(run) = mpi.script(&job, "take=x:1 take=x:2 wait") else { return };
            run.succeed();
            fs::remove_dir_all(job.scratch()).unwrap();
            mpi.script(&job, "newest=x:2 restore=x:2").unwrap().succeed();
            // This byte is in the part of the second process.
            flip(&job.persistent().join("x-agg-2.dat"), 150_000);
            let commands = "newest=x:1 restore=x:1 refuse=x:2";
            let ended = mpi.script(&job, commands).unwrap().succeed();
            assert!(ended.stderr.contains("x-agg-2.dat: its bytes have XXH3"), "{}", ended.stderr);
            flip(&job.persistent().join("x-agg-2.dat"), 150_000);
            for folder in [job.persistent(), job.path("meta")] {
                exchange(&folder.join("x-agg-1.dat"), &folder.join("x-agg-2.dat"));
            }
            let ended = mpi.script(&job, "newest=x:-1 refuse=x:1").unwrap().succeed();
            assert!(ended.stderr.contains("its proof says \"x\" version"), "{}", ended.stderr);
        }
    }
}
