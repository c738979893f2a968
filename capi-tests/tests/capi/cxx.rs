//! The C++ interface, in a library linked as an installation has it. The checks are in `cxx/`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use capi_tests::backends::wait_for_backends;
use capi_tests::cxx::{cxx_program, cxx_program_with, library, library_of, mpi_program};
use capi_tests::job::{names, Job};
use capi_tests::mpi::{MPICH, OPEN_MPI};
use capi_tests::program::{found, staged, Flavour};
use capi_tests::run::{Ended, Run};
use xtask::project::output;
use xtask::system::is_there;

const CONFIGURATIONS: [&str; 3] = [
    "mode = async\nscratch = DIR/scratch\n",
    "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n",
    "mode = async\nscratch = DIR/scratch\nhost_cache_size = 300K\n",
];

/// Room for 24 checkpoints of 4 MiB.
const IN_MEMORY: &str = "mode = async\nephemeral = true\nhost_cache_size = 100M\n";

/// The type of a text argument in the demangled names of functions.
const STRING: &str =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&";

fn run(job: &Job, program: &str, arguments: &str) -> Ended {
    run_program(job, &cxx_program(program, Flavour::Plain), arguments)
}

fn run_program(job: &Job, program: &Path, arguments: &str) -> Ended {
    let arguments = arguments.replace("DIR", &job.path("").display().to_string());
    let ended = Run::new(program)
        .env("LD_LIBRARY_PATH", library())
        .arg(job.path("veloc.cfg"))
        .args(&arguments)
        .succeed();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended
}

fn in_every_job(program: &str, arguments: &str) {
    for configuration in CONFIGURATIONS {
        run(&Job::new(configuration), program, arguments);
    }
}

/// Catches a method that calls another function, loses an argument, or takes a group for another.
#[test]
fn methods() {
    in_every_job("client", "memory");
    in_every_job("client", "routed original=DIR/original");
}

/// Catches an exception that passes through the library, or is lost.
#[test]
fn adjoint_computations() {
    in_every_job("adjoint", "");
}

/// Catches a client that outlives its job as a dangling pointer, and a job that is started twice.
#[test]
fn beginnings_and_ends() {
    in_every_job("client", "ends");
}

/// Catches a file closed twice or never, an exception that goes through C or is lost, and one that comes again.
#[test]
fn arrays_in_persistent_memory() {
    for flavour in [Flavour::Plain, Flavour::Sanitized] {
        let folder = tempfile::tempdir().unwrap();
        let _ =
            Run::new(&cxx_program("arrays", flavour)).arg(folder.path().join("arrays")).succeed();
    }
}

/// Catches a schedule freed twice or never, copied, or left behind by a move, and a lost error.
#[test]
fn schedules() {
    for flavour in [Flavour::Plain, Flavour::Sanitized] {
        let program = cxx_program("schedule", flavour);
        let _ = Run::new(&program).env("LD_LIBRARY_PATH", library_of(flavour)).succeed();
    }
}

/// Catches bytes of objects that are lost, cut, mixed up with memory or read from the wrong place, also where a
/// serializer comes back to them.
#[test]
fn objects() {
    for configuration in CONFIGURATIONS {
        let ended = run(&Job::new(configuration), "objects", "round-trips");
        assert!(!ended.stderr.contains("unread"), "{}", ended.stderr);
    }
}

/// Catches bytes that a deserializer leaves in silence, a warning for each restart, and one about a deserializer that has
/// read all of them.
#[test]
fn bytes_that_are_left_are_told_once() {
    let ended = run(&Job::new(CONFIGURATIONS[0]), "objects", "leftovers");
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("unread")).collect();
    assert_eq!(told.len(), 3, "{}", ended.stderr);
    for (line, region) in told.iter().zip(["region 1: ", "region 2: ", "region 6: "]) {
        assert!(line.contains(region) && line.contains("its deserializer leaves bytes"), "{line}");
    }
}

/// Catches exceptions that cross the border, checkpoints that stay open, and a call that waits for
/// itself.
#[test]
fn objects_that_refuse() {
    in_every_job("objects", "refusals");
}

/// Catches functions of the application's that are destroyed twice or never.
#[test]
fn lifetimes_of_objects() {
    in_every_job("objects", "lifetimes");
}

/// Catches observers that hear of checkpoints that do not exist, that are called under a lock, or
/// whose exceptions change what a call gives.
#[test]
fn observers() {
    in_every_job("objects", "observers");
}

/// Catches this rank's memory or files taken for another rank's.
#[test]
fn other_ranks() {
    for (configuration, persistent_only) in [
        (CONFIGURATIONS[0], false),
        (CONFIGURATIONS[1], false),
        (CONFIGURATIONS[1], true),
        ("mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n", true),
    ] {
        let job = Job::new(configuration);
        run(&job, "ranks", "case=write original=DIR/original");
        if persistent_only {
            std::fs::remove_dir_all(job.scratch()).unwrap();
        }
        run(&job, "ranks", "case=read original=DIR/original");
    }
}

/// Catches a release routine that is not called, called twice, called too early, or called for a
/// checkpoint that has failed; and a copy of lent memory that keeps the application waiting.
#[test]
fn release_routines() {
    for (configuration, by) in [
        ("mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\n", "worker"),
        ("mode = async\nephemeral = true\nhost_cache_size = 64M\n", "worker"),
        // Beside other checkpoints it goes to a file, after it was lent.
        ("mode = async\nscratch = DIR/scratch\nhost_cache_size = 1500K\n", "worker"),
        ("mode = async\nscratch = DIR/scratch\nhost_cache_size = 300K\n", "caller"),
        ("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n", "caller"),
    ] {
        run(&Job::new(configuration), "release", &format!("host by={by}"));
    }
}

/// Catches an exception that ends the process, is lost, or costs a checkpoint; with the C++ layer,
/// and in the library without it.
#[test]
fn release_routines_that_throw() {
    for configuration in [
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\n",
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 300K\n",
        "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n",
    ] {
        for library in [library(), staged().lib()] {
            let run = Run::new(&cxx_program("release", Flavour::Plain));
            let run = run.env("LD_LIBRARY_PATH", library);
            let job = Job::new(configuration);
            let _ = run.arg(job.path("veloc.cfg")).args("host case=throws").succeed();
        }
    }
}

fn on_device(program: &str, job: &Job, arguments: &str) -> Run {
    let paths = std::env::join_paths([library(), staged().softcuda()]).unwrap();
    let run = Run::new(&cxx_program(program, Flavour::Plain)).env("LD_LIBRARY_PATH", paths);
    run.arg(job.path("veloc.cfg")).arg("device").args(arguments)
}

/// Release routines of device memory.
#[test]
fn release_routines_of_device_memory() {
    for (configuration, by) in [
        ("mode = async\nscratch = DIR/scratch\ngpu_cache_size = 16M\n", "worker"),
        ("mode = async\nephemeral = true\ngpu_cache_size = 16M\nhost_cache_size = 64M\n", "worker"),
        ("mode = async\nscratch = DIR/scratch\ngpu_cache_size = 0\n", "worker"),
        // Without a host buffer the device cache takes the checkpoint.
        (
            "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 16M\nhost_cache_size = 0\n",
            "caller",
        ),
        ("mode = sync\nscratch = DIR/scratch\n", "caller"),
    ] {
        let _ = on_device("release", &Job::new(configuration), &format!("by={by}")).succeed();
    }
}

/// Catches a loan that does not end when its copy fails, a failed copy that counts as a checkpoint,
/// and a `VELOC_Finalize(0)` that does not report the failure.
#[test]
fn a_loan_whose_copy_fails() {
    let configuration = "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 16M\n";
    for case in ["case=fails", "case=unheard"] {
        let _ = on_device("release", &Job::new(configuration), case)
            .env("SOFTCUDA_FAIL", "cuMemcpyDtoHAsync_v2:1=1")
            .succeed();
    }
}

/// Catches a number, a condition or another constant that defers the capture of memory that then changes, and one
/// that is taken for no flag in silence.
#[test]
fn no_capture_is_deferred_by_accident() {
    let ended = run(&Job::new(IN_MEMORY), "prototype", "host case=accidents");
    let told =
        ended.stderr.lines().filter(|line| line.contains("neither VELOC_DEFAULT nor")).count();
    assert_eq!(told, 1, "{}", ended.stderr);
    let _ = on_device("prototype", &Job::new(IN_MEMORY), "case=accidents").succeed();
}

/// Catches changed memory of a deferred capture that `verify_captures` does not see, and an alarm about memory that
/// the library itself keeps as it was.
#[test]
fn changed_memory_of_deferred_captures_is_found() {
    for capture in ["copy", "protect", "fork"] {
        let configuration =
            format!("{IN_MEMORY}verify_captures = true\nhost_capture = {capture}\n");
        run(&Job::new(&configuration), "prototype", "host case=verified");
    }
    let configuration = format!("{IN_MEMORY}verify_captures = true\n");
    let _ = on_device("prototype", &Job::new(&configuration), "case=verified").succeed();
}

/// Catches a restart that writes to lent memory before it has been copied.
#[test]
fn a_restart_to_memory_that_is_lent() {
    run(&Job::new(IN_MEMORY), "prototype", "host case=turned");
    for cache in ["0", "1G"] {
        let configuration = format!("{IN_MEMORY}gpu_cache_size = {cache}\n");
        let _ = on_device("prototype", &Job::new(&configuration), "case=turned").succeed();
    }
}

/// Catches a line that a script of the prototype's author cannot read, figures that stay 0, and a line that nobody
/// has asked for.
#[test]
fn figures_of_a_cleanup() {
    let ended = run(&Job::new(IN_MEMORY), "prototype", "host case=figures");
    let [_, after] = ended.stdout.split("<<<<<=====").collect::<Vec<_>>()[..] else {
        panic!("{}", ended.stdout)
    };
    let figures = after.split("=====>>>>>").next().unwrap_or_default();
    let figures: Vec<f64> = figures.split(',').map(|text| text.trim().parse().unwrap()).collect();
    assert_eq!((figures.len(), figures[0], figures[1]), (6, 3.0, 3.0 * (4 << 20) as f64));
    assert!(figures[2] > 0.0 && figures[3] > 0.0, "{figures:?}");
}

/// Catches a process that waits at its end for flushes, which take hours here, that gets another exit code, or that
/// leaves a file or a process.
#[test]
fn a_program_that_ends_without_finalize() {
    let in_memory = "mode = async\nephemeral = true\ngpu_cache_size = 64M\nhost_cache_size = 64M\n";
    let overflowing =
        "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 20M\n";
    for (configuration, how) in [
        (in_memory, "return"),
        (in_memory, "exit"),
        (in_memory, "quick"),
        (in_memory, "thread"),
        (overflowing, "return"),
        (overflowing, "busy"),
    ] {
        let job = Job::new(configuration);
        let device = configuration == in_memory;
        let ended = match device {
            true => on_device("unfinished", &job, &format!("how={how}")),
            false => Run::new(&cxx_program("unfinished", Flavour::Plain))
                .env("LD_LIBRARY_PATH", library())
                .arg(job.path("veloc.cfg"))
                .args(&format!("host how={how}")),
        };
        let ended = ended.end();
        assert_eq!(ended.status.code(), Some(7), "{how}: {}{}", ended.stdout, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        wait_for_backends(&job);
        let left: Vec<_> =
            std::fs::read_dir(job.scratch()).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{how}: {left:?} is left");
    }
}

/// Catches adapters that lose bytes, or do not notice bytes of another object.
#[test]
fn adapters() {
    for (program, header, libraries) in [
        ("adapt_cereal", Some("/usr/include/cereal/cereal.hpp"), &[][..]),
        (
            "adapt_boost",
            Some("/usr/include/boost/archive/binary_oarchive.hpp"),
            &["boost_serialization"],
        ),
        // Debian has no bitsery: a stand-in for it is in the tests.
        ("adapt_bitsery", None, &[]),
    ] {
        if header.is_some_and(|header| !Path::new(header).exists()) {
            println!("skipped: there is no {}", header.unwrap_or_default());
            continue;
        }
        if let Some(name) = libraries.iter().find(|name| !is_there(&format!("-l{name}"))) {
            println!("skipped: there is no library {name}");
            continue;
        }
        let job = Job::new(CONFIGURATIONS[0]);
        let ended = run_program(&job, &cxx_program_with(program, libraries), "");
        assert!(!ended.stderr.contains("unread"), "{}", ended.stderr);
    }
}

/// Catches bytes that are lost, in the wrong place or read before they are written, failures that
/// are not reported, and files that stay in scratch.
#[test]
fn cached_files() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\n");
    std::fs::create_dir(job.scratch()).unwrap();
    for scratch in [job.scratch(), job.path("veloc.cfg")] {
        for limit in ["", "1", "3"] {
            let run =
                Run::new(&cxx_program("cached", Flavour::Plain)).env("LD_LIBRARY_PATH", library());
            let run = if limit.is_empty() { run } else { run.env("VELOC_POSIX_CACHE_SIZE", limit) };
            let ended = run.arg(&scratch).arg(job.path("file")).succeed();
            assert!(ended.stderr.contains("cached_file_t: writing /dev/full"), "{}", ended.stderr);
        }
        let text = std::fs::read_to_string(job.path("file.left")).unwrap();
        assert_eq!(text, "left to the end");
    }
    assert_eq!(names(&job.scratch()), [""; 0]);
}

/// Catches a virtual function in another place, or another name of a function, than upstream's.
#[test]
fn an_object_compiled_against_upstream() {
    in_every_job("upstream", "");
}

/// Catches a function of the layer's or of Rust's that a program could take for its own.
#[test]
fn it_exports_the_interface_and_nothing_else() {
    let library = library().join("libveloc-client.so");
    let text = output(Command::new("nm").args(["-DC", "--defined-only"]).arg(&library)).unwrap();
    // The name stands behind the address and the letter of its kind.
    let names: BTreeSet<&str> =
        text.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    let (c, cxx): (BTreeSet<&str>, BTreeSet<&str>) =
        names.iter().partition(|name| name.starts_with("VELOC_"));
    assert!(c.contains("VELOC_Checkpoint"), "{c:?}");
    let of_get_client = |given: String| {
        ["unsigned int", "int", "ompi_communicator_t*", "MPI_ABI_Comm*"]
            .map(|comm| format!("veloc::get_client({comm}, {given})"))
    };
    let string = STRING.trim_end_matches(" const&");
    let pair = format!("std::pair<{string}, {string} >");
    let options = format!("std::vector<{pair}, std::allocator<{pair} > > const&");
    let mut wanted = vec![
        format!("veloc::cached_file_t::cached_file_t({STRING})"),
        "veloc::cached_file_t::~cached_file_t()".to_owned(),
        format!("veloc::cached_file_t::open({STRING}, int, unsigned int)"),
        "veloc::cached_file_t::pread(void*, unsigned long, long)".to_owned(),
        "veloc::cached_file_t::pwrite(void const*, unsigned long, long)".to_owned(),
        "veloc::cached_file_t::close()".to_owned(),
        "veloc::cached_file_t::flush()".to_owned(),
        "veloc::cached_file_t::shutdown()".to_owned(),
        "typeinfo for veloc::client_t".to_owned(),
        "typeinfo name for veloc::client_t".to_owned(),
        "veloc::client_t::~client_t()".to_owned(),
    ];
    wanted.extend(of_get_client(STRING.to_owned()));
    wanted.extend(of_get_client(options));
    assert_eq!(cxx, wanted.iter().map(String::as_str).collect());
    let text = output(Command::new("readelf").arg("-d").arg(&library)).unwrap();
    assert!(text.contains("Library soname: [libveloc-client.so]"), "{text}");
}

/// Catches memory of the layer's or of the program's that is used after its end, past its end, or
/// never freed.
#[test]
fn under_sanitizers() {
    let job = |program: &str, arguments: &[&str]| {
        println!("{program} {arguments:?}");
        let job = Job::new(CONFIGURATIONS[0]);
        std::fs::create_dir(job.scratch()).unwrap();
        let mut run = Run::new(&cxx_program(program, Flavour::Sanitized))
            .env("LD_LIBRARY_PATH", library_of(Flavour::Sanitized))
            .env("VELOC_LOG", "off")
            .arg(job.path("veloc.cfg"));
        for argument in arguments {
            run = run.arg(argument.replace("DIR", &job.path("").display().to_string()));
        }
        let _ = run.succeed();
    };
    job("client", &["memory"]);
    job("client", &["ends"]);
    job("client", &["routed", "original=DIR/original"]);
    for case in ["round-trips", "refusals", "leftovers", "lifetimes", "observers"] {
        job("objects", &[case]);
    }
    job("release", &["host", "by=worker"]);
    job("release", &["host", "case=throws"]);
    job("cached", &["DIR/file"]);
}

/// Catches a communicator that the library with the C++ layer has under the other MPI's name only.
#[test]
fn over_mpi() {
    under_every_mpi("together");
}

/// Catches an exception of one rank that is lost, keeps the others waiting, or is hidden from them.
#[test]
fn a_callback_that_throws_on_one_rank() {
    under_every_mpi("thrown");
}

/// Four ranks have left checkpoints, of which two restore all. Catches a rank that is refused its own number, one that
/// gets another's, and a job of another size that restores something without naming a rank.
#[test]
fn a_job_of_another_size_restores_every_rank() {
    for configuration in CONFIGURATIONS {
        let job = Job::new(configuration);
        run_under_every_mpi("redistribute", &job, &[4, 2]);
    }
}

/// A program on two ranks.
fn under_every_mpi(program: &str) {
    run_under_every_mpi(program, &Job::new(CONFIGURATIONS[0]), &[2]);
}

/// Runs of a program on so many ranks each.
fn run_under_every_mpi(program: &str, job: &Job, ranks: &[usize]) {
    for (compiler, mpi) in [("mpicxx.openmpi", OPEN_MPI), ("mpicxx.mpich", MPICH)] {
        if found(compiler).is_none() {
            println!("skipped: {compiler} is not installed");
            continue;
        }
        let program = mpi_program(compiler, program);
        for folder in [job.scratch(), job.persistent()] {
            let _ = std::fs::remove_dir_all(folder);
        }
        for &ranks in ranks {
            let Some(run) = mpi.start(ranks) else { continue };
            let run = run.env("LD_LIBRARY_PATH", library());
            let _ = run.arg(&program).arg(job.path("veloc.cfg")).succeed();
        }
    }
}

/// Catches code of the application that runs while its thread is in the device's context for the library.
#[test]
fn objects_on_a_device() {
    let job =
        Job::new("mode = async\nephemeral = true\ngpu_cache_size = 8M\nhost_cache_size = 8M\n");
    let program = cxx_program("objects_on_device", Flavour::Plain);
    let paths = std::env::join_paths([library(), staged().softcuda()]).unwrap();
    Run::new(&program).env("LD_LIBRARY_PATH", paths).arg(job.path("veloc.cfg")).succeed();
}
