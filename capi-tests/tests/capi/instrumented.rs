//! The host programs under AddressSanitizer, UndefinedBehaviorSanitizer and valgrind: the library
//! must not write beyond the memory it is given, nor read memory that was never written.

use std::path::Path;

use capi_tests::depth::is_all;
use capi_tests::job::Job;
use capi_tests::program::{program, Flavour};
use capi_tests::run::Run;
use xtask::project::has_program;

const JOBS: [&str; 3] = [
    "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nhost_cache_size = 4M\n",
    "mode = async\nscratch = DIR/scratch\nhost_cache_size = 200K\n",
    "mode = sync\nscratch = DIR/scratch\n",
];

const CASES: [&str; 9] = [
    "round-trip",
    "selective",
    "given-up",
    "protected-again",
    "replaced-by-less",
    "all-or-nothing",
    "cleanup",
    "route original=DIR/original",
    "two-lives",
];

#[test]
fn sanitizers() {
    for configuration in JOBS {
        let runs = CASES.map(|case| ("host", case));
        for (name, arguments) in runs.into_iter().chain([("refusals", "DIR"), ("threads", "")]) {
            println!("{name} {arguments}");
            Job::new(configuration)
                .run_flavour(name, Flavour::Sanitized, arguments)
                // A case ends without freeing its regions: they are protected until then.
                .env("ASAN_OPTIONS", "detect_leaks=0")
                .env("VELOC_LOG", "off")
                .succeed();
        }
    }
}

#[test]
fn valgrind() {
    if !is_all() {
        println!("skipped: valgrind, which is for cargo xtask test --all");
        return;
    }
    if !has_program("valgrind") {
        println!("skipped: valgrind is not installed");
        return;
    }
    // Valgrind runs everything on one processor, many times slower.
    for (configuration, name, arguments) in [
        (JOBS[0], "host", "round-trip"),
        (JOBS[0], "host", "selective"),
        (JOBS[1], "host", "replaced-by-less"),
        (JOBS[2], "host", "all-or-nothing"),
        (JOBS[0], "host", "route original=DIR/original"),
        (JOBS[0], "host", "two-lives"),
        (JOBS[0], "refusals", "DIR"),
    ] {
        println!("{name} {arguments}");
        let job = Job::new(configuration);
        let arguments = arguments.replace("DIR", &job.path("").display().to_string());
        Run::new(Path::new("valgrind"))
            .args("--quiet --error-exitcode=9 --fair-sched=yes")
            .arg(program(name, Flavour::Plain))
            .arg(job.path("veloc.cfg"))
            .args(&arguments)
            .env("VELOC_LOG", "off")
            .succeed();
    }
}
