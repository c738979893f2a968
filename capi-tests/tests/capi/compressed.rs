//! `compress`: files that the workers and the backend compress, and every reader of them.

use std::fs;

use capi_tests::job::{files, Job};

const KEYS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// How a compressed file begins.
const MAGIC: &[u8] = b"VELOCfrm";

fn compressed(by: &str) -> String {
    format!("{KEYS}compress = {by}\n")
}

/// Catches a file that is not compressed, one of the two copies that is, and bytes that a later job, which does not
/// compress, cannot read. The sizes are of no frame, of a part of one, and of several.
#[test]
fn files_are_compressed_and_read_again() {
    for by in ["lz4", "zstd", "zstd:19"] {
        let job = Job::new(&compressed(by));
        job.run(
            "script",
            "take=x:1 size=9000000 take=x:2 size=1 take=x:3 size=1048576 take=x:4 wait",
        )
        .succeed();
        for directory in [job.scratch(), job.persistent()] {
            let files = files(&directory);
            assert_eq!(files.len(), 4, "{:?}", files.keys());
            assert!(files.values().all(|bytes| bytes.starts_with(MAGIC)), "{by}");
        }
        job.configure(KEYS);
        let restores =
            "restore=x:1 size=9000000 restore=x:2 size=1 restore=x:3 size=1048576 restore=x:4";
        job.run("script", restores).succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.run("script", restores).succeed();
    }
}

/// Catches a damaged frame that is restored, with and without a proof, and a good copy that is not looked for.
#[test]
fn a_damaged_frame_is_passed_over() {
    for more in ["", "proof = off\n", "meta = DIR/meta\nchksum = true\n"] {
        let job = Job::new(&(compressed("lz4") + more));
        job.run("script", "size=3000000 take=x:1 take=x:2 wait").succeed();
        let flip = |path: &std::path::Path, at: usize| {
            let mut bytes = fs::read(path).unwrap();
            bytes[at] ^= 4;
            fs::write(path, bytes).unwrap();
        };
        flip(&job.scratch().join("x-0-2.dat"), 2_000_000);
        job.run("script", "size=3000000 restore=x:2 restore=x:1").succeed();
        flip(&job.persistent().join("x-0-2.dat"), 20);
        job.run("script", "size=3000000 refuse=x:2:x-0-2.dat restore=x:1").succeed();
        // Cut off.
        let path = job.scratch().join("x-0-1.dat");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        job.run("script", "size=3000000 restore=x:1").succeed();
    }
}

/// Catches files that the backend of a killed job writes otherwise.
#[test]
fn the_backend_compresses() {
    let job = Job::new(&(compressed("zstd") + "host_cache_size = 32M\n"));
    job.run("script", "size=3000000 take=x:1 take=x:2 take=x:3 kill").end();
    job.run("script", "size=3000000 newest=x:3 restore=x:3 restore=x:1").succeed();
    let files = files(&job.persistent());
    assert!(files.len() == 3 && files.values().all(|bytes| bytes.starts_with(MAGIC)));
}

/// A checkpoint without memory, and one of an ephemeral job that spills. Catches files of the application's thread that
/// are cut off, as nothing compresses them.
#[test]
fn what_the_call_writes_is_not_compressed() {
    let job = Job::new(&(compressed("lz4") + "host_cache_size = 1M\n"));
    job.run("script", "size=3000000 take=x:1 restore=x:1 wait").succeed();
    assert!(!files(&job.scratch())["x-0-1.dat"].starts_with(MAGIC));
    job.run("script", "size=3000000 restore=x:1").succeed();
    let spills = "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 4M\ncompress = lz4\n";
    let job = Job::new(spills);
    let takes: String = (1..9).map(|version| format!("take=x:{version} ")).collect();
    let restores: String = (1..9).rev().map(|version| format!("restore=x:{version} ")).collect();
    job.run("script", &format!("size=1500000 {takes}{restores}")).succeed();
}
