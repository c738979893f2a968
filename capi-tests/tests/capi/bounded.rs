//! `VELOC_Mem_compress`: regions with fewer bits of each value, within a bound.

use std::fs;

use capi_tests::job::{files, Job};

const KEYS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// Catches values beyond their bounds, special ones that change, and files that have all bits or that VELOC would read; from
/// memory, from files of another process, and from the persistent ones.
#[test]
fn each_value_is_within_its_bound() {
    for more in ["", "compress = lz4\n", "proof = off\n"] {
        let job = Job::new(&format!("{KEYS}{more}"));
        job.run("bounded", "").succeed();
        job.run("bounded", "take=0 parts=1").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.run("bounded", "take=0").succeed();
        let file = &files(&job.persistent())["wave-0-1.dat"];
        assert!(file.len() < 70013 * (4 + 8 + 4 + 2) && file.len() > 100_000, "{}", file.len());
        if more != "compress = lz4\n" {
            assert_eq!(file[..8], [5, 0, 0, 0, 0, 0, 0, 0x80]);
        }
    }
}

/// Catches buffers that do not last as long as a call needs them, in each way that a checkpoint goes.
#[test]
fn in_every_mode() {
    let ephemeral = "mode = async\nephemeral = true\nhost_cache_size = 64M\n".to_owned();
    let sync = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n".to_owned();
    // Larger than memory, so that the call writes it.
    let small = format!("{KEYS}host_cache_size = 1M\n");
    for keys in [ephemeral, sync, small] {
        let job = Job::new(&keys);
        job.run("bounded", "").succeed();
        job.run("bounded", "parts=1").succeed();
    }
}

/// Catches a backend that writes what it does not understand otherwise.
#[test]
fn the_backend_writes_them() {
    let job = Job::new(&format!("{KEYS}host_cache_size = 64M\n"));
    job.run("bounded", "restore=0 kill=1").end();
    job.run("bounded", "take=0").succeed();
    assert_eq!(files(&job.persistent()).len(), 5);
}

/// Catches bad input that is taken.
#[test]
fn bad_input_is_refused() {
    let _ = Job::new(KEYS).run("bounded", "refuse=1").succeed();
}

/// Catches a job whose deltas would be of encoded bytes.
#[test]
fn deltas_are_not_compressed() {
    let job = Job::new(&format!("{KEYS}incremental = true\n"));
    let ended = job.run("bounded", "").end();
    assert!(
        ended.stdout.contains("with incremental = true regions are not compressed"),
        "{}",
        ended.stdout
    );
}
