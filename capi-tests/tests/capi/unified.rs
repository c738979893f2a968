//! Managed memory, on the software device, which counts the bytes that move. What a real driver does as well is in
//! `programs/device.list`.

use capi_tests::job::Job;

const MEMORY: &str =
    "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\nhost_cache_size = 256M\n";

/// Twice the device's memory. Catches a region that is taken to the device as a whole, and pieces that are copied by
/// the side that does not have them.
#[test]
fn managed_memory_beyond_the_device() {
    let job = Job::new(MEMORY);
    job.run_device("unified", "beyond bytes=67108864").env("SOFTCUDA_MEMORY", "32M").succeed();
}

/// Files have managed memory right, and are restored where there is room. Catches a restore that pushes the
/// application's memory out of the device, and one that leaves on the host what the device has room for.
#[test]
fn managed_memory_of_an_earlier_job() {
    for (case, memory) in [("fresh", "1G"), ("full", "8M")] {
        for mode in [MEMORY, "mode = sync\nscratch = DIR/scratch\n"] {
            let job = Job::new(mode);
            for _ in 0..2 {
                job.run_device("unified", case).env("SOFTCUDA_MEMORY", memory).succeed();
            }
        }
    }
}

/// Catches pages that are asked for where the device takes part in the host's page table, which has them all.
#[test]
fn managed_memory_of_a_device_that_reads_the_hosts_page_table() {
    let job = Job::new(MEMORY);
    job.run_device("unified", "shared").env("SOFTCUDA_PAGEABLE", "ats").succeed();
}

/// Catches a driver that does not answer, of which nobody hears, or for which a checkpoint fails.
#[test]
fn managed_memory_that_nobody_tells_of() {
    let job = Job::new(MEMORY);
    let run = job.run_device("unified", "forked");
    let ended = run.env("SOFTCUDA_FAIL", "cuMemRangeGetAttributes:1+=1").succeed();
    let said = ended.stderr.matches("the driver does not tell where managed memory is").count();
    assert_eq!(said, 1, "{}", ended.stderr);
}
