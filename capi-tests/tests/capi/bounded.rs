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

/// Catches a list that restores encoded bytes, and memory that is compressed and never given back.
#[test]
fn by_a_list_and_lent() {
    let job = Job::new(&format!("{KEYS}host_cache_size = 64M\ngpu_cache_size = 32M\n"));
    job.run("bounded", "lent=1 list=1").succeed();
    job.run_device("bounded", "take=0 device=1 list=1").succeed();
    job.run_device("bounded", "device=1 lent=1").succeed();
}

/// Catches a backend that writes what it does not understand otherwise.
#[test]
fn the_backend_writes_them() {
    let job = Job::new(&format!("{KEYS}host_cache_size = 64M\n"));
    job.run("bounded", "restore=0 kill=1").end();
    job.run("bounded", "take=0").succeed();
    assert_eq!(files(&job.persistent()).len(), 5);
}

/// Catches values that the device rounds otherwise, a kernel that is not behind the application's work, and files
/// that the other kind of memory does not understand: what either has taken, both restore.
#[test]
fn the_device_compresses_its_memory() {
    let job = Job::new(KEYS);
    job.run_device("bounded", "device=1").succeed();
    job.run_device("bounded", "device=1 take=0 parts=1").succeed();
    let file = &files(&job.persistent())["wave-0-1.dat"];
    assert!(file.len() < 70013 * (4 + 8 + 4 + 2) && file.len() > 100_000, "{}", file.len());
    fs::remove_dir_all(job.scratch()).unwrap();
    job.run("bounded", "take=0").succeed();
    let job = Job::new(&format!("{KEYS}gpu_cache_size = 0\n"));
    job.run("bounded", "").succeed();
    job.run_device("bounded", "device=1 take=0").succeed();
    job.run_device("bounded", "device=1 take=0 managed=1").succeed();
}

/// Catches encoded bytes that are taken for decoded ones where they lie on the device, on the host, or in no memory
/// at all.
#[test]
fn the_device_compresses_in_every_mode() {
    let ephemeral = "mode = async\nephemeral = true\nhost_cache_size = 64M\n".to_owned();
    let sync = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n".to_owned();
    let small = format!("{KEYS}host_cache_size = 1M\ngpu_cache_size = 2M\n");
    let one = format!("{KEYS}host_cache_size = 64M\ngpu_cache_size = 2M\nverify_captures = true\n");
    for (keys, more) in [(ephemeral, "parts=1"), (sync, ""), (small, "parts=1"), (one, "")] {
        let job = Job::new(&keys);
        job.run_device("bounded", &format!("device=1 managed=1 {more}")).succeed();
    }
}

/// Catches a checkpoint whose kernels work beside the application's stream, and one whose copies do: its buffer is
/// the next one's.
#[test]
fn compressed_checkpoints_wait_for_the_stream() {
    let keys = format!("{KEYS}host_cache_size = 64M\ngpu_cache_size = 32M\n");
    Job::new(&keys).run_device("bounded", "device=1 stream=1").succeed();
    let job = Job::new(&format!("{keys}stream_ordered = true\n"));
    let run = || job.run_device("bounded", "device=1 stream=1").env("SOFTCUDA_LATE", "1000");
    let ended = run().succeed();
    assert!(ended.stderr.contains("is compressed in the call"), "{}", ended.stderr);
}

/// Catches a checkpoint or a restart that fails for want of a buffer on the device.
#[test]
fn without_room_device_memory_is_taken_as_it_is() {
    let job = Job::new(KEYS);
    // Two buffers are there.
    let ended = job.run_device("bounded", "device=1 room=3").succeed();
    assert!(
        ended.stderr.contains("on the device for compressing or decoding a region"),
        "{}",
        ended.stderr
    );
    job.run("bounded", "").succeed();
    job.run_device("bounded", "device=1 take=0 room=1").succeed();
}

/// Catches a failure of the driver that is lost, or after which nothing goes any more.
#[test]
fn failures_of_the_kernels_are_told() {
    Job::new(KEYS).run_device("bounded", "device=1 fail=1").succeed();
    Job::new(KEYS).run_device("bounded", "device=1 fail=1 lossless=1").succeed();
}

/// Catches compression that ends without a word when a region is protected again with elements of another size, and
/// bytes that are taken for floats.
#[test]
fn another_element_size_keeps_what_was_asked_for() {
    let host = Job::new(KEYS).run("bounded", "elements=1").succeed();
    let device = Job::new(KEYS).run_device("bounded", "elements=1 device=1").succeed();
    for ended in [host, device] {
        assert!(ended.stderr.contains("its elements have 1 bytes now"), "{}", ended.stderr);
    }
}

/// Catches a bit that is lost, a file that has all of them, one that only this process reads, and metrics that miss it.
#[test]
fn without_loss_each_bit_comes_back() {
    for (more, way) in [("", 1), ("compress = lz4\n", 1), ("host_cache_size = 1M\n", 1), ("", 2)] {
        let job = Job::new(&format!("{KEYS}{more}"));
        job.run("bounded", &format!("lossless={way}")).succeed();
        job.run("bounded", "lossless=1 take=0 parts=1").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.run("bounded", "lossless=1 take=0 list=1").succeed();
        let file = &files(&job.persistent())["wave-0-1.dat"];
        assert!(
            file.len() < 70013 * (4 + 8 + 4 + 4) * 7 / 8 && file.len() > 100_000,
            "{}",
            file.len()
        );
        job.run_device("bounded", "lossless=1 take=0 device=1").succeed();
    }
}

/// Catches bits that the device loses, bytes that the processor reads otherwise, and a file that has all of them.
#[test]
fn the_device_compresses_without_loss() {
    let small = format!("{KEYS}host_cache_size = 1M\ngpu_cache_size = 2M\n");
    for (keys, more) in [(KEYS, "lossless=1"), (KEYS, "lossless=2"), (&small, "lossless=1 parts=1")]
    {
        let job = Job::new(keys);
        job.run_device("bounded", &format!("device=1 {more}")).succeed();
        job.run_device("bounded", "device=1 take=0 lossless=1 managed=1").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.run("bounded", "take=0 lossless=1").succeed();
        let file = &files(&job.persistent())["wave-0-1.dat"];
        assert!(file.len() < 70013 * (4 + 8 + 4 + 4) * 7 / 8, "{}", file.len());
    }
}

/// Catches a permission that stays when it is taken back, and an order that goes with it.
#[test]
fn compression_is_taken_back() {
    for way in [1, 2] {
        Job::new(KEYS).run("bounded", &format!("lossless={way} back=1 restore=0")).succeed();
    }
}

/// Catches a permission that makes a call wait for what it would not do otherwise, or that is an error.
#[test]
fn a_permission_is_no_order() {
    for more in ["incremental = true\n", "host_capture = protect\n", "stream_ordered = true\n"] {
        Job::new(&format!("{KEYS}{more}")).run("bounded", "lossless=3").succeed();
    }
    let keys =
        format!("{KEYS}host_cache_size = 64M\ngpu_cache_size = 32M\nstream_ordered = true\n");
    Job::new(&keys).run_device("bounded", "device=1 stream=1 lossless=3").succeed();
}

/// Catches bad input that is taken.
#[test]
fn bad_input_is_refused() {
    Job::new(KEYS).run("bounded", "refuse=1").succeed();
    Job::new(KEYS).run_device("bounded", "device=1 refuse=1").succeed();
}

/// Catches a job whose deltas would be of encoded bytes.
#[test]
fn deltas_are_not_compressed() {
    let job = Job::new(&format!("{KEYS}incremental = true\n"));
    let ended = job.run("bounded", "").end();
    assert!(
        ended.stdout.contains("compression does not go with incremental = true"),
        "{}",
        ended.stdout
    );
}
