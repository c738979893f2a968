//! Device memory, on the software device. Every program checks every byte that it restores, and
//! that it has not misused the device.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use capi_tests::depth::{is_all, times};
use capi_tests::job::{names, Job};
use capi_tests::program::sources;
use capi_tests::random::Random;
use capi_tests::run::Ended;

/// The lines of `programs/device.list`: program, arguments, configuration.
fn listed() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(sources().join("device.list")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split(" | ");
            let command = parts.next().unwrap();
            let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
            let configuration: String = parts.map(|key| format!("{key}\n")).collect();
            (program.to_owned(), arguments.to_owned(), configuration)
        })
        .collect()
}

/// Every line of the list that the bundle runs on a GPU; but before a release, one of each program.
#[test]
fn everything_listed_for_a_gpu() {
    let mut programs = BTreeSet::new();
    for (program, arguments, configuration) in listed() {
        // What is refused takes no time, and the list has its text.
        let is_short = programs.insert(program.clone()) | arguments.contains("expect=");
        if !is_short && !is_all() {
            continue;
        }
        println!("{program} {arguments} | {}", configuration.replace('\n', " | "));
        let job = Job::new(&configuration);
        let run = job.run_device(&program, &arguments).env("SOFTCUDA_DEVICES", "2");
        // Memory that went with its context must not be used again: a driver may crash on it.
        run.env("SOFTCUDA_STALE", "fatal").succeed();
    }
}

/// Memory in which several handles are mapped, with drivers whose range of a pointer is that of one
/// handle, and with drivers whose range is the reservation. Catches memory that is refused, and
/// memory beyond the mapping that is not.
#[test]
fn memory_of_several_handles() {
    for ranges in ["handle", "reservation"] {
        let job = Job::new("mode = async\nscratch = DIR/scratch\ngpu_cache_size = 16M\n");
        job.run_device("device", "pieces").env("SOFTCUDA_RANGES", ranges).succeed();
    }
}

/// Catches a host buffer with small pages that is not reported, a report for each region, and a
/// report where huge pages were not asked for or were granted.
#[test]
fn small_pages_of_shared_memory_are_named_once() {
    let enabled = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let enabled = fs::read_to_string(enabled).unwrap_or_default();
    let never = !["[always]", "[within_size]", "[advise]", "[force]"]
        .iter()
        .any(|word| enabled.contains(word));
    let shared = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 16M\n";
    for (configuration, expected) in [
        (shared.to_owned(), usize::from(never)),
        (format!("{shared}huge_pages = false\n"), 0),
        ("mode = async\nephemeral = true\nhost_cache_size = 64M\n".to_owned(), 0),
    ] {
        let job = Job::new(&configuration);
        let ended =
            job.run_device("shot", "managed=1000 versions=3").env("VELOC_LOG", "info").succeed();
        // Pages that the system has set aside are used.
        let set_aside = ended.stderr.contains("were set aside");
        let said = ended.stderr.matches("shmem_enabled").count();
        assert_eq!(said, if set_aside { 0 } else { expected }, "{configuration}{}", ended.stderr);
    }
}

/// Memory of `malloc`, in a job with a device whose queue stands still. Catches checkpoints of host
/// memory that wait for the device without need, and checkpoints that do not where programs let
/// kernels write to it.
#[test]
fn host_memory_waits_for_no_device() {
    for (pageable, kind) in [("no", 1), ("hmm", 1), ("ats", 2)] {
        for configuration in
            ["mode = async\nephemeral = true\n", "mode = sync\nscratch = DIR/scratch\n"]
        {
            let job = Job::new(configuration);
            let run = job.run_device("stream_order", &format!("malloc={kind}"));
            run.env("SOFTCUDA_PAGEABLE", pageable).succeed();
        }
    }
}

/// Catches calls of the driver that a checkpoint or a restart makes more than it has to: one to enter the context,
/// two that keep captures of graphs whole, one for each region, its copy, the order of streams, and the wait.
#[test]
fn a_call_enters_the_context_once() {
    let job = Job::new(
        "mode = async\nephemeral = true\ngpu_cache_size = 64M\ngpu_chunk_size = 64M\nhost_cache_size = 0\n",
    );
    for (arguments, most) in [("stream=1", 9), ("stream=0", 9), ("stream=1 regions=8", 23)] {
        job.run_device("driver_calls", &format!("{arguments} most={most} most_restart={most}"))
            .succeed();
    }
}

/// Catches checkpoints that break the capture of a graph, and captures that are not reported.
#[test]
fn graphs_that_are_being_captured_stay_whole() {
    for configuration in [
        "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\nhost_cache_size = 32M\n",
        "mode = async\nephemeral = true\ngpu_cache_size = 0\nhost_cache_size = 64M\n",
        "mode = sync\nscratch = DIR/scratch\n",
    ] {
        Job::new(configuration).run_device("device", "captured").succeed();
    }
}

/// Shots on devices of other speeds: different copies overlap.
#[test]
fn shots_at_other_speeds() {
    let mut random = Random::seeded("shots_at_other_speeds");
    let speeds = [
        ("SOFTCUDA_BANDWIDTH", "dtoh=1,htod=1,pageable=0.5"),
        ("SOFTCUDA_BANDWIDTH", "dtod=0.5,register=1"),
        ("SOFTCUDA_DELAY", "cuMemMap=30000,cuMemHostRegister_v2=50000"),
        ("SOFTCUDA_DELAY", "cuEventSynchronize=500,cuStreamSynchronize=500"),
        ("SOFTCUDA_DELAY", "cuMemcpyDtoHAsync_v2=2000,cuMemcpyHtoDAsync_v2=100"),
    ];
    let shots: Vec<_> = listed().into_iter().filter(|line| line.0 == "shot").collect();
    for (name, value) in speeds {
        for _ in 0..times("VELOC_SHOTS", 2, 6) {
            let (program, arguments, configuration) =
                &shots[random.below(shots.len() as u64) as usize];
            let arguments = format!("{arguments} seed={}", random.below(1 << 30));
            println!("{name}={value} {program} {arguments} {configuration:?}");
            Job::new(configuration).run_device(program, &arguments).env(name, value).succeed();
        }
    }
}

fn shot(configuration: &str, arguments: &str) -> (Job, Ended) {
    let job = Job::new(configuration);
    let ended = job.run_device("shot", arguments).succeed();
    (job, ended)
}

/// A shot that is larger than both caches uses every level: a test of the tests above, and of
/// figures.
#[test]
fn a_shot_passes_through_every_tier() {
    let (job, ended) = shot(
        "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
         gpu_cache_size = 8M\nhost_cache_size = 16M\n",
        "versions=40 order=reverse hints=all wait=1 last=1",
    );
    for figure in ["AtoD", "DtoH", "HtoF", "FtoP", "FtoH", "HtoD", "DtoA"] {
        assert!(ended.figure(figure) > 0, "nothing was moved {figure}");
    }
    for figure in ["device_evictions", "host_evictions", "fetches", "device_hits"] {
        assert!(ended.figure(figure) > 0, "no {figure}");
    }
    assert_eq!(ended.figure("checkpoints"), 40);
    assert_eq!(ended.figure("restores"), 40);
    assert_eq!(ended.figure("device_capacity"), 8 << 20);
    assert_eq!(names(&job.scratch()).len(), 40);
    assert_eq!(names(&job.scratch()), names(&job.persistent()));
}

/// Catches hints that are refused or lost because they come before their checkpoints, and hints
/// that stay with the files of an earlier run when their versions are taken anew: the first hinted
/// version would never be in the device cache before its restore.
#[test]
fn hints_before_the_checkpoints() {
    for order in ["same", "random"] {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\nhost_cache_size = 16M\n\
             restore_order = random\n",
        );
        for seed in [1, 2] {
            let arguments = format!("hints=before order={order} seed={seed}");
            let ended = job.run_device("shot", &arguments).env("VELOC_LOG", "info").succeed();
            // Only hints cause prefetches here: no order is expected.
            assert!(ended.figure("fetches") > 0 && ended.figure("device_hits") >= 4);
            assert!(
                !ended.stderr.contains("hints of checkpoints that never existed"),
                "{}",
                ended.stderr
            );
        }
    }
    let job = Job::new("mode = async\nscratch = DIR/scratch\n");
    let ended = job.run("host", "hints").env("VELOC_LOG", "info").succeed();
    let told = "hints of checkpoints that never existed: 2, one of them \"other\" version 7";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

/// A checkpoint that is larger than the device cache goes to the host buffer, and one that is
/// larger than that streams to scratch.
#[test]
fn what_is_too_large_goes_a_tier_down() {
    let configuration = |host: &str| {
        format!(
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 4M\nhost_cache_size = {host}\n"
        )
    };
    let (_, ended) = shot(&configuration("32M"), "bytes=9000000 versions=6");
    assert!(ended.figure("AtoH") > 0 && ended.figure("AtoF") == 0);
    let (_, ended) = shot(&configuration("4M"), "bytes=9000000 versions=6");
    assert!(ended.figure("AtoF") > 0 && ended.figure("AtoH") == 0);
}

/// An ephemeral job writes only what overflows its memory, and removes that at its end.
#[test]
fn ephemeral_shots() {
    let (job, ended) = shot(
        "mode = async\nephemeral = true\nscratch = DIR/scratch\n\
         gpu_cache_size = 16M\nhost_cache_size = 48M\n",
        "",
    );
    assert_eq!((ended.figure("HtoF"), ended.figure("spills")), (0, 0));
    assert!(names(&job.scratch()).is_empty());

    let (job, ended) = shot(
        "mode = async\nephemeral = true\nscratch = DIR/scratch\n\
         gpu_cache_size = 8M\nhost_cache_size = 16M\n",
        "",
    );
    assert!(ended.figure("HtoF") > 0 && ended.figure("spills") > 0);
    assert!(names(&job.scratch()).is_empty(), "{:?}", names(&job.scratch()));

    // Nothing is consumed and no other level has room: an error, not a wait for ever.
    let (_, ended) = shot(
        "mode = async\nephemeral = true\ngpu_cache_size = 8M\nhost_cache_size = 16M\n",
        "wall=1",
    );
    assert!((16..40).contains(&ended.figure("wall")), "{}", ended.stdout);
    assert!(ended.figure("discards") > 0);
}

/// The device has less memory than the cache was to have: the job uses what could be mapped, and
/// says so.
#[test]
fn out_of_device_memory_while_mapping() {
    // The application uses some of it, so that the last chunk or chunks cannot be had.
    for mebibytes in [12, 4, 2] {
        let job = Job::new(&format!(
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = {mebibytes}M\n\
             gpu_chunk_size = 2M\nhost_cache_size = 16M\n"
        ));
        let run = job.run_device("shot", "");
        let ended = run.env("SOFTCUDA_MEMORY", format!("{mebibytes}M")).succeed();
        assert!(ended.figure("device_capacity") < mebibytes << 20);
        assert_eq!(ended.stderr.matches("gpu_cache_size").count(), 1, "{}", ended.stderr);
    }
}

/// Registration as configured; with it off or refused, everything works without.
#[test]
fn pinning_is_as_configured() {
    let configuration = |pin: &str| {
        format!(
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\nhost_cache_size = 16M\n\
             pin = {pin}\n"
        )
    };
    let (_, ended) = shot(&configuration("off"), "wait=1");
    assert_eq!(ended.figure("host_registered"), 0);
    for pin in ["serial", "parallel", "chunked"] {
        let job = Job::new(&configuration(pin));
        job.run_device("registration", "").succeed();
        // Registration has all the time of the run: it waits until the application is idle.
        let mut held = job
            .run_device("shot", "held=1")
            .env("SOFTCUDA_FAIL", "cuMemHostRegister_v2:1+=2")
            .with(|command| {
                command.stdin(Stdio::piped());
            })
            .start();
        held.wait_until_said("stays unregistered");
        let refused = held.end_input().end().succeeded();
        assert_eq!(refused.figure("host_registered"), 0);
        assert_eq!(refused.stderr.matches("stays unregistered").count(), 1, "{}", refused.stderr);
    }
}

/// Catches copies to memory that is not registered, which the driver stages under its lock of the
/// context: by way of the device cache, and straight from the application where there is none.
#[test]
fn nothing_is_staged_while_nothing_is_registered() {
    for cache in ["gpu_cache_size = 8M", "gpu_cache_size = 0"] {
        for pin in ["off", "serial"] {
            let keys = format!("mode = async\nephemeral = true\nhost_cache_size = 64M\n{cache}\n");
            let job = Job::new(&format!("{keys}pin = {pin}\n"));
            job.run_device("unregistered_buffer", "").succeed();
        }
        // The driver registers nothing: this is reported once by each worker, and nothing is lost.
        let job = Job::new(&format!(
            "mode = async\nephemeral = true\nhost_cache_size = 64M\n{cache}\npin = off\n"
        ));
        let refused = job
            .run_device("unregistered_buffer", "staged=1")
            .env("SOFTCUDA_FAIL", "cuMemHostRegister_v2:1+=2");
        let ended = refused.succeed();
        let said = "between device and host buffer stay unregistered, so transfers are slower";
        assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);
    }
}

/// Catches workers that take a processor while the device copies, to the host buffer or to files.
#[test]
fn workers_sleep_while_the_device_copies() {
    for keys in ["ephemeral = true\nhost_cache_size = 64M", "scratch = DIR/s\nhost_cache_size = 0"]
    {
        let job = Job::new(&format!("mode = async\n{keys}\ngpu_cache_size = 64M\n"));
        // The device is so slow that most copies are left when the application waits.
        let run = job
            .run_device("unregistered_buffer", "asleep=1")
            .env("SOFTCUDA_BANDWIDTH", "dtoh=0.03");
        run.env("SOFTCUDA_SPIN", "1").succeed();
    }
}

/// A service that shares the device (MPS) gives the process less than the device says that it has.
/// Catches a job that fails because of that, or waits for a cache that cannot come.
#[test]
fn less_memory_than_the_device_says() {
    let keys = "mode = async\nephemeral = true\nhost_cache_size = 64M\ngpu_cache_size = 64M\n";
    let job = Job::new(&format!("{keys}gpu_chunk_size = 2M\n"));
    // Room for the program's own memory, and a few versions.
    let ended = job.run_device("unregistered_buffer", "").env("SOFTCUDA_LIMIT", "24M").succeed();
    assert!(ended.stderr.contains("device cache"), "{}", ended.stderr);
}

/// Catches a device cache that is left out without a warning, and a warning with each checkpoint.
#[test]
fn a_device_cache_without_a_device() {
    let keys = "mode = async\nephemeral = true\nhost_cache_size = 8M\n";
    for (more, times) in [("gpu_cache_size = 8M\n", 1), ("gpu_cache_size = 0\n", 0), ("", 0)] {
        let job = Job::new(&format!("{keys}{more}"));
        // One configuration serves machines without a driver as well: no warning, and a line for who asks.
        for (level, times) in [("warn", 0), ("info", times)] {
            let run = job.run("script", "take=x:1 take=x:2").env("VELOC_LOG", level);
            let said = run.succeed().stderr;
            assert_eq!(said.matches("gpu_cache_size has no effect").count(), times, "{said}");
        }
    }
}

/// The driver was loaded after the job had begun, and ends before its end is noticed. Catches
/// workers that go on copying, errors about a driver that has ended and not failed, and a job whose
/// handler finalizes it too late for the device and in time for the host.
#[test]
fn the_driver_ends_first() {
    let run = |case| {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 32M\nhost_cache_size = 32M\n\
             gpu_chunk_size = 2M\n",
        );
        let ended = job
            .run_device("device", case)
            .env("SOFTCUDA_DELAY", "cuMemMap=50000")
            .env("SOFTCUDA_BANDWIDTH", "dtoh=0.001,pageable=0.01")
            .succeed();
        let warnings = ended.stderr.lines().filter(|line| line.contains(": warning: "));
        assert!(!warnings.clone().any(|line| line.contains("DEINITIALIZED")), "{}", ended.stderr);
        ended
    };
    let ended = run("without-finalize");
    assert!(ended.stderr.contains("ends without VELOC_Finalize"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("DEINITIALIZED"), "{}", ended.stderr);
    // Another copy may be about to begin.
    let copies =
        ended.stderr.matches("cuMemcpyDtoHAsync_v2: called after the driver's end").count();
    assert!(copies <= 1, "{}", ended.stderr);
    let ended = run("late-finalize");
    assert!(ended.stdout.lines().any(|line| line == "late -1"), "{}", ended.stdout);
    assert!(ended.stderr.contains("CUDA_ERROR_DEINITIALIZED"), "{}", ended.stderr);
    let ended = run("host-at-exit");
    assert!(ended.stdout.lines().any(|line| line == "late 0"), "{}", ended.stdout);
}

/// Catches a stream that is refused because its context is one that stands for a part of the device.
#[test]
fn a_stream_of_a_green_context() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\ngpu_cache_size = 32M\n");
    job.run_device("device", "green").succeed();
}
