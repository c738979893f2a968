//! Every driver call made to fail in turn. `programs/driver_failures.c` checks what must be true then.

use capi_tests::depth::is_all;
use capi_tests::job::Job;

/// The calls that the program makes itself, after the counting began.
const OWN_CALLS: [&str; 2] = ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"];

const OUT_OF_MEMORY: u32 = 2;
const ILLEGAL_ADDRESS: u32 = 700;
const UNKNOWN: u32 = 999;

/// The error of a failing call: the likely one, where there is one.
fn code(call: &str) -> u32 {
    match call {
        "cuMemCreate" | "cuMemMap" | "cuMemAddressReserve" | "cuMemHostRegister_v2" => {
            OUT_OF_MEMORY
        }
        _ => UNKNOWN,
    }
}

/// The failures to inject for a call that was made so many times; before a release all, otherwise one of them.
fn chosen(nth: usize, call: &str, count: u64) -> Vec<String> {
    let mut all = failures(call, count);
    match is_all() {
        true => all,
        false => vec![all.swap_remove(nth % all.len())],
    }
}

/// The failures to inject for a call that was made so many times.
fn failures(call: &str, count: u64) -> Vec<String> {
    let mut positions = match is_all() {
        true => vec![1, 2, count.div_ceil(2), count],
        false => vec![count.div_ceil(2)],
    };
    positions.retain(|&position| position <= count);
    positions.sort_unstable();
    positions.dedup();
    let code = code(call);
    let mut failures: Vec<String> =
        positions.iter().map(|position| format!("{call}:{position}={code}")).collect();
    failures.push(format!("{call}:1+={code}"));
    if count > 2 && is_all() {
        failures.push(format!("{call}:{}+={code}", count.div_ceil(2)));
    }
    // Work that fails after its call has succeeded, and takes the context with it.
    let queues_work = ["cuMemcpy", "cuEvent", "cuStreamSync", "cuCtxSync", "cuMemHostRegister"];
    if queues_work.iter().any(|prefix| call.starts_with(prefix)) {
        failures.extend(positions.iter().map(|p| format!("{call}:{p}~{ILLEGAL_ADDRESS}")));
    }
    failures
}

fn inject_everywhere(configuration: &str, arguments: &str) {
    inject_in(&[""], configuration, arguments);
}

/// Injects failures of the calls that begin like one of these; in `--all` of all calls.
fn inject_in(beginnings: &[&str], configuration: &str, arguments: &str) {
    let is_meant = |call: &str| is_all() || beginnings.iter().any(|start| call.starts_with(start));
    let mut runs = 0;
    let calls: Vec<(String, u64)> = {
        let ended = Job::new(configuration).run_device("driver_failures", arguments).succeed();
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix("call "));
        lines
            .map(|line| {
                let (call, count) = line.split_once(' ').unwrap();
                (call.to_owned(), count.parse().unwrap())
            })
            .collect()
    };
    assert!(calls.len() > 15, "the program makes few calls: {calls:?}");
    let own = |call: &str| OWN_CALLS.contains(&call);
    let injected = calls.iter().filter(|(call, _)| is_meant(call) && !own(call));
    for (nth, (call, count)) in injected.enumerate() {
        for failure in chosen(nth, call, *count) {
            println!("{failure}");
            Job::new(configuration)
                .run_device("driver_failures", arguments)
                .arg(format!("fail={failure}"))
                .env("VELOC_LOG", "off")
                .succeed();
            runs += 1;
        }
    }
    println!("{runs} failures of {} calls", calls.len());
}

#[test]
fn every_call_fails_in_an_async_job() {
    inject_everywhere(
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\ngpu_chunk_size = 2M\n\
         host_cache_size = 6M\npin = chunked\npin_chunk_size = 4M\n",
        "",
    );
}

/// Host memory is copied after the call, by a thread and by a forked process.
#[test]
fn every_call_fails_beside_frozen_memory() {
    for capture in ["protect", "fork"] {
        inject_everywhere(
            &format!(
                "mode = async\nephemeral = true\ngpu_cache_size = 8M\ngpu_chunk_size = 2M\n\
                 host_cache_size = 16M\nhost_capture = {capture}\n"
            ),
            "files=0",
        );
    }
}

/// Files have the blocks of device memory that have changed.
#[test]
fn every_call_fails_in_an_incremental_job() {
    inject_everywhere(
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\ngpu_chunk_size = 2M\n\
         host_cache_size = 6M\nincremental = true\nincremental_chain = 2\n",
        "",
    );
}

/// The device cache grows meanwhile.
#[test]
fn every_call_fails_in_an_ephemeral_job() {
    inject_everywhere(
        "mode = async\nephemeral = true\ngpu_cache_size = 2M..8M\ngpu_chunk_size = 2M\n\
         host_cache_size = 16M\n",
        "files=0",
    );
}

#[test]
fn every_call_fails_in_a_sync_job() {
    inject_everywhere("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n", "");
}

/// Copies are behind their calls: a version whose copy fails is told, and restores have the right bytes.
#[test]
fn every_call_fails_behind_ordered_checkpoints() {
    inject_everywhere(
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\ngpu_chunk_size = 2M\n\
         host_cache_size = 16M\nstream_ordered = true\n",
        "ordered=1",
    );
}

/// The device compresses its memory and decompresses it.
#[test]
fn every_call_fails_while_the_device_compresses() {
    inject_in(
        &["cuModule", "cuLaunch", "cuMemAlloc", "cuMemFree", "cuMemcpyDtoH", "cuStreamSync"],
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 2M\ngpu_chunk_size = 2M\n\
         host_cache_size = 6M\n",
        "compressed=1",
    );
}

/// The device cache is written straight to files.
#[test]
fn every_call_fails_without_a_host_buffer() {
    inject_everywhere(
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\ngpu_chunk_size = 2M\n\
         host_cache_size = 0\n",
        "",
    );
}
