//! The Fortran module, compiled as its users compile it. What is checked stands in `fortran/`.

use std::path::Path;
use std::time::Duration;

use capi_tests::backends::MARK;
use capi_tests::job::Job;
use capi_tests::program::{fortran_program, found};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// Catches wrong sizes of elements, addresses of copies, sections with gaps that are taken for
/// ranges of memory, texts that are not ended or not cut, numbers that are cut to 32 bits, and kinds
/// of integers for which there is no procedure.
#[test]
fn without_mpi() {
    without_mpi_by("gfortran");
}

/// The same by LLVM's compiler, which hands arrays over in other descriptors.
#[test]
fn by_flang() {
    match ["flang", "flang-new", "flang-22", "flang-new-19"]
        .into_iter()
        .find(|f| found(f).is_some())
    {
        Some(compiler) => without_mpi_by(compiler),
        None => println!("skipped: flang is not installed"),
    }
}

fn without_mpi_by(compiler: &str) {
    if found(compiler).is_none() {
        println!("skipped: {compiler} is not installed");
        return;
    }
    // Old programs are compiled with long integers.
    for (configuration, flags) in [
        (CONFIGURATION, &[][..]),
        ("mode = sync\nscratch = DIR/scratch\n", &[]),
        (CONFIGURATION, &["-fdefault-integer-8"]),
    ] {
        let job = Job::new(configuration);
        let program = fortran_program(compiler, flags, "whole", &["veloc"]);
        let _ = Run::new(&program).arg(job.path("veloc.cfg")).arg(job.path("routed")).succeed();
    }
}

/// Catches a callback that gets its arguments in the wrong way, and a structure with other members.
#[test]
fn adjoints() {
    for compiler in ["gfortran", "flang-new-19"].into_iter().filter(|name| found(name).is_some()) {
        for flags in [&[][..], &["-fdefault-integer-8"]] {
            let job = Job::new(CONFIGURATION);
            let program =
                fortran_program(compiler, flags, "adjoints", &["veloc", "veloc_adjoints"]);
            let _ = Run::new(&program).arg(job.path("veloc.cfg")).succeed();
        }
    }
}

/// The example of an adjoint over MPI: its gradient is right to the second order, and the same to the
/// last bit after one process or the other was killed, at any moment.
#[test]
fn the_adjoint_of_a_heat_equation() {
    let mut random = Random::seeded("fortran::the_adjoint_of_a_heat_equation");
    for (name, arguments) in
        [("openmpi", "--allow-run-as-root --oversubscribe -n 2"), ("mpich", "-n 2")]
    {
        let compiler = format!("mpifort.{name}");
        let (Some(_), Some(starter)) = (found(&compiler), found(&format!("mpirun.{name}"))) else {
            println!("skipped: {compiler} is not installed");
            continue;
        };
        let modules = &["veloc", "veloc_adjoints"];
        let program = fortran_program(&compiler, &[], "../../examples/heat/heat", modules);
        let run = |job: &Job| {
            let run = Run::new(&starter).env(MARK, job.path("")).args(arguments).arg(&program);
            run.arg(job.path("veloc.cfg")).args("300 40")
        };
        let lines = |ended: Ended| {
            assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
            let order = ended.stdout.split_once("order ").unwrap().1.trim().parse::<f64>().unwrap();
            assert!((1.9..2.1).contains(&order), "{}", ended.stdout);
            ended.stdout
        };
        let wanted = lines(run(&Job::new("mode = async\nephemeral = true\n")).end());
        let job = Job::new(CONFIGURATION);
        for round in 0..3 {
            let mut running = run(&job).start();
            // Some starters hang if a process dies before it has met the others.
            running.wait_for_line("a rod of 80 cells");
            std::thread::sleep(Duration::from_micros(random.below(500_000)));
            let ranks = processes_of(&job, &program);
            if let Some(rank) = ranks.get(round % 2) {
                // SAFETY: it was there a moment ago, and numbers are not given anew so soon.
                unsafe { libc::kill(*rank, libc::SIGKILL) };
            }
            println!("{} ranks: {:?}", ranks.len(), running.end().stdout);
        }
        assert_eq!(lines(run(&job).end()), wanted, "{name}");
    }
}

/// The processes of a job that run a program.
fn processes_of(job: &Job, program: &Path) -> Vec<libc::pid_t> {
    let mark = format!("{MARK}={}", job.path("").display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ours = processes.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        std::fs::read_link(entry.path().join("exe")).is_ok_and(|path| path == program)
            && environment.split(|&byte| byte == 0).any(|value| value == mark.as_bytes())
    });
    let mut numbers: Vec<libc::pid_t> =
        ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Catches an integer that is passed for a communicator where it has to be translated.
#[test]
fn over_mpi() {
    for (name, arguments) in
        [("openmpi", "--allow-run-as-root --oversubscribe -n 3"), ("mpich", "-n 3")]
    {
        let compiler = format!("mpifort.{name}");
        let (Some(_), Some(starter)) = (found(&compiler), found(&format!("mpirun.{name}"))) else {
            println!("skipped: {compiler} is not installed");
            continue;
        };
        let long = &["-fdefault-integer-8"][..];
        for (program, modules, flags) in [
            ("together", &["veloc"][..], &[][..]),
            ("together_f08", &["veloc", "veloc_f08"], &[]),
            ("together_f08", &["veloc", "veloc_f08"], long),
        ] {
            let job = Job::new(CONFIGURATION);
            let program = fortran_program(&compiler, flags, program, modules);
            let run = Run::new(&starter).args(arguments).arg(&program);
            let _ = run.arg(job.path("veloc.cfg")).succeed();
        }
    }
}
