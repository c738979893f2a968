//! Host regions through the C interface, beside the bare copies of the same bytes.
//!
//! `cargo bench --bench host`, or with `-- timeline` the cost of a timeline alone. Each figure is a
//! median, and each ratio compares medians of one run in which the two things measured take turns,
//! because machines are noisy.

#![allow(clippy::unwrap_used, clippy::panic)] // A benchmark stops at the first thing that fails.

use std::ffi::{c_void, CString};
use std::fs;
use std::time::{Duration, Instant};

use veloc_client::capi::*;

const NAME: &std::ffi::CStr = c"bench";
const MIB: usize = 1 << 20;

fn main() {
    let directory = tempfile::tempdir().unwrap();
    if std::env::args().any(|argument| argument == "timeline") {
        return traced(directory.path());
    }
    init_times(directory.path());
    large(directory.path());
    small(directory.path());
    traced(directory.path());
}

fn init(directory: &std::path::Path, text: &str) -> Duration {
    let path = directory.join("veloc.cfg");
    fs::write(&path, text).unwrap();
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let since = Instant::now();
    // SAFETY: the path ends with NUL.
    ok(unsafe { VELOC_Init_single(0, path.as_ptr()) });
    since.elapsed()
}

fn ok(status: i32) {
    if status != VELOC_SUCCESS {
        // SAFETY: never NULL, and valid until the next failing call.
        panic!("{}", unsafe { std::ffi::CStr::from_ptr(VELOC_Last_error()) }.to_string_lossy());
    }
}

fn metrics() -> VELOC_Metrics {
    let mut metrics = VELOC_Metrics::default();
    // SAFETY: the size is the struct's.
    ok(unsafe { VELOC_Get_metrics(&mut metrics, std::mem::size_of::<VELOC_Metrics>()) });
    metrics
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn init_times(directory: &std::path::Path) {
    for (what, text) in [
        ("1 GiB host buffer", "mode = async\nephemeral = true\nhost_cache_size = 1\n"),
        ("16 GiB host buffer", "mode = async\nephemeral = true\nhost_cache_size = 16\n"),
    ] {
        let times = (0..5)
            .map(|_| {
                let time = init(directory, text);
                ok(VELOC_Finalize(0));
                time
            })
            .collect();
        println!("VELOC_Init_single, {what}: {:?} (to reach: 10 ms)", median(times));
    }
}

fn large(directory: &std::path::Path) {
    let len = 256 * MIB;
    init(directory, "mode = async\nephemeral = true\nhost_cache_size = 2\n");
    let application = vec![1u8; len];
    let mut plain = vec![0u8; len];
    ok(VELOC_Mem_protect(0, application.as_ptr() as *mut c_void, len, 1));
    while metrics().host_touched < metrics().host_capacity {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (mut copies, mut checkpoints, mut restores) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..15 {
        let since = Instant::now();
        plain.copy_from_slice(&application);
        copies.push(since.elapsed());
        std::hint::black_box(&plain);
        let version = round % 4;
        let since = Instant::now();
        // SAFETY: the name ends with NUL, and the protected memory is alive.
        ok(unsafe { VELOC_Checkpoint(NAME.as_ptr(), version) });
        checkpoints.push(since.elapsed());
        let since = Instant::now();
        // SAFETY: as above.
        ok(unsafe { VELOC_Restart(NAME.as_ptr(), version) });
        restores.push(since.elapsed());
    }
    ok(VELOC_Finalize(0));
    let (copy, checkpoint, restore) = (median(copies), median(checkpoints), median(restores));
    let rate = |time: Duration| len as f64 / time.as_secs_f64() / 1e9;
    let ratio = |time: Duration| time.as_secs_f64() / copy.as_secs_f64();
    println!("256 MiB, host buffer touched:");
    println!("  memcpy     {copy:?}, {:.1} GB/s", rate(copy));
    println!("  checkpoint {checkpoint:?}, {:.2} x memcpy (to reach: 1.2)", ratio(checkpoint));
    println!("  restore    {restore:?}, {:.2} x memcpy (to reach: 1.2)", ratio(restore));
}

fn small(directory: &std::path::Path) {
    let (len, count) = (4096, 50_000);
    init(directory, "mode = async\nephemeral = true\nhost_cache_size = 1\n");
    let application = vec![1u8; len];
    ok(VELOC_Mem_protect(0, application.as_ptr() as *mut c_void, len, 1));
    let rates = (0..5)
        .map(|round| {
            let since = Instant::now();
            for version in 0..count {
                // SAFETY: the name ends with NUL, and the protected memory is alive.
                ok(unsafe { VELOC_Checkpoint(NAME.as_ptr(), version) });
            }
            let rate = f64::from(count) / since.elapsed().as_secs_f64();
            println!("4 KiB, ephemeral, round {round}: {rate:.0} checkpoints a second");
            rate
        })
        .collect::<Vec<_>>();
    let mut sorted = rates;
    sorted.sort_by(f64::total_cmp);
    println!("4 KiB, ephemeral: {:.0} a second, median (to reach: 50,000)", sorted[2]);
    ok(VELOC_Finalize(0));
}

/// What a timeline costs: jobs with and without take turns. Beside the time that passes, the
/// processor time of the application's thread: the writer's does not count there, nor what else
/// the machine does.
fn traced(directory: &std::path::Path) {
    for (what, len, count) in
        [("4 KiB", 4096, 20_000), ("1 MiB", MIB, 500), ("16 MiB", 16 * MIB, 40)]
    {
        let application = vec![1u8; len];
        let mut times = [const { (Vec::new(), Vec::new()) }; 2];
        for round in 0..30 {
            let with = round % 2 == 1;
            let mut text = "mode = async\nephemeral = true\nhost_cache_size = 1\n".to_owned();
            if with {
                text += &format!("trace = {}\n", directory.join("trace.json").display());
            }
            init(directory, &text);
            ok(VELOC_Mem_protect(0, application.as_ptr() as *mut c_void, len, 1));
            while metrics().host_touched < metrics().host_capacity {
                std::thread::sleep(Duration::from_millis(10));
            }
            let (since, processor) = (Instant::now(), processor_time());
            for version in 0..count {
                // SAFETY: the name ends with NUL, and the protected memory is alive.
                ok(unsafe { VELOC_Checkpoint(NAME.as_ptr(), version) });
            }
            let (passed, used) = &mut times[usize::from(with)];
            passed.push(since.elapsed() / count as u32);
            used.push((processor_time() - processor) / count as u32);
            ok(VELOC_Finalize(0));
        }
        let [without, with] = times.map(|(passed, used)| [median(passed), median(used)]);
        for (i, time) in ["passed", "processor"].into_iter().enumerate() {
            let (without, with) = (without[i], with[i]);
            let cost = 100.0 * (with.as_secs_f64() / without.as_secs_f64() - 1.0);
            println!("{what}, {time}: {without:?}, with a timeline {with:?}: {cost:+.2} %");
        }
    }
}

/// What the calling thread has used of its processor.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
