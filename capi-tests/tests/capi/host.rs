//! The protocol with host memory, in every kind of job. The checks of each case, and the fault that
//! it would catch, are in `programs/host.c`.

use capi_tests::job::Job;
use capi_tests::program::maimed_driver;

/// Cases that need no file to outlive the job.
const CASES: [&str; 14] = [
    "round-trip",       // wrong offsets, order by unsigned id, version 0 lost
    "selective",        // upstream's crash in SOME; a region captured late or twice
    "given-up",         // upstream keeps a checkpoint that ended with 0
    "protected-again",  // upstream freezes the regions at a name's first checkpoint
    "own-regions",      // a name's own regions taken for everybody's, or frozen
    "replaced-by-less", // upstream leaves the old tail; an old file over a new one
    "newest",           // names and versions taken for others'; none, taken for an error
    "all-or-nothing",   // upstream overwrites regions before it finds that one does not fit
    "cleanup",          // upstream takes a dot for any letter
    "hints",            // hints that are refused because nothing is there yet
    "cleanup-at-once",  // a write under way that comes back after its removal
    "many",             // what is evicted comes back wrong
    "finished",         // a poll that never ends
    "empty-region",     // no bytes, taken for bytes that are lost
];

fn all_cases(configuration: &str) {
    for case in CASES {
        println!("{case}");
        let ended = Job::new(configuration).run("host", case).succeed();
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("VELOC_Restart_test"), "{}", ended.stderr);
    }
}

/// Runs all cases, and those that look at files in a second life of the job.
fn all_cases_with_files(configuration: &str) {
    all_cases(configuration);
    Job::new(configuration).run("host", "two-lives").succeed();
    Job::new(configuration).run("host", "route original=DIR/original").succeed();
}

#[test]
fn async_jobs() {
    all_cases_with_files("mode = async\nscratch = DIR/scratch\n");
}

#[test]
fn async_jobs_with_persistent() {
    all_cases_with_files("mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n");
}

#[test]
fn sync_jobs() {
    all_cases_with_files("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n");
    all_cases_with_files("mode = sync\nscratch = DIR/scratch\n");
}

/// Every checkpoint is evicted at once, and large ones stream to their files.
#[test]
fn host_buffer_smaller_than_a_checkpoint() {
    all_cases_with_files("mode = async\nscratch = DIR/scratch\nhost_cache_size = 300K\n");
}

#[test]
fn no_host_buffer() {
    all_cases_with_files("mode = async\nscratch = DIR/scratch\nhost_cache_size = 0\n");
}

#[test]
fn ephemeral_jobs() {
    all_cases("mode = async\nephemeral = true\nhost_cache_size = 64M\n");
    all_cases("mode = sync\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 2M\n");
}

/// A host program with a device driver loaded, even a useless one: its checkpoints must not suffer.
#[test]
fn drivers_of_every_sort() {
    let configuration = "mode = async\nscratch = DIR/scratch\n";
    for case in ["round-trip", "selective"] {
        let job = Job::new(configuration);
        let library = maimed_driver(&job.path(""));
        let ended = job.run("host", case).env("LD_PRELOAD", library).succeed();
        assert!(ended.stderr.contains("no function cu"), "{}", ended.stderr);
    }
    for (name, value) in [
        ("SOFTCUDA_DEVICES", "0"),          // a driver without a device
        ("SOFTCUDA_FAIL", "cuInit:1+=999"), // one that does not start
        ("SOFTCUDA_FAIL", "cuInit:1+=804"), // one whose kernel module is of another version
    ] {
        let job = Job::new(configuration);
        job.run_device("device", "broken-driver").env(name, value).succeed();
    }
}

/// Calls from several threads are taken one after the other.
#[test]
fn threads() {
    for configuration in [
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 1M\n",
        "mode = sync\nscratch = DIR/scratch\n",
    ] {
        Job::new(configuration).run("threads", "").env("VELOC_LOG", "off").succeed();
    }
}

/// The environment overrides the file; an unknown key causes a warning that names it.
#[test]
fn settings_from_the_environment() {
    let job = Job::new("mode = nonsense\nscratch = /nonexistent/x\nscrach = 1\n");
    let ended = job
        .run("host", "write")
        .env("VELOC_MODE", "sync")
        .env("VELOC_SCRATCH", job.path("elsewhere"))
        .succeed();
    assert!(job.path("elsewhere/x-0-1.dat").exists());
    assert!(ended.stderr.contains("scrach") && ended.stderr.contains("scratch"));
}

/// Catches an empty name of a configuration that is taken for a file although the environment has
/// all that a job needs, and a NULL that is taken for an empty name.
#[test]
fn an_empty_name_is_no_configuration_file() {
    for mode in ["sync", "async"] {
        let job = Job::new("");
        let ended = job
            .run("host", "write configuration=")
            .env("VELOC_MODE", mode)
            .env("VELOC_SCRATCH", job.path("elsewhere"))
            .env("VELOC_PERSISTENT", "")
            .succeed();
        assert!(job.path("elsewhere/x-0-1.dat").exists(), "{}", ended.stderr);
    }
    let failed = Job::new("mode = sync\n").run("host", "write configuration=").end();
    for part in ["environment", "name of the configuration file is empty", "mode is missing"] {
        assert!(failed.stdout.contains(part), "{}", failed.stdout);
    }
}

/// Catches a value of `VELOC_LOG` that silences warnings and errors, and is not reported itself.
#[test]
fn how_much_is_logged() {
    let said = |value: &str| {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\nscrach = 1\n");
        job.run("host", "write").env("VELOC_LOG", value).succeed().stderr
    };
    for value in ["1", "yes", "nonsense", "/tmp"] {
        let said = said(value);
        let named = format!("VELOC_LOG is \"{value}\"");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&named)).collect();
        assert!(lines.len() == 1 && lines[0].contains("debug"), "{value}: {said}");
        assert!(said.contains("scrach"), "{value}: {said}");
    }
    assert_eq!(said("error"), "");
    assert!(said("config=warn").contains("scrach"));
}

/// Catches a checkpoint that ends the process if memory was freed that is still protected: the
/// missing page is in the middle of a region. In memory, straight to a file, and by a worker.
#[test]
fn memory_that_is_gone_is_refused_with_its_region() {
    let asynchronous = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 4M\n";
    let checked = "mode = sync\nscratch = DIR/scratch\nchksum = true\nmeta = DIR/meta\n";
    Job::new(asynchronous).run("unmapped_region", "").succeed();
    Job::new(checked).run("unmapped_region", "").succeed();
    Job::new(asynchronous).run("unmapped_region", "lent=1").succeed();
}
