//! The Fortran module, compiled as its users compile it. What is checked stands in `fortran/`.

use capi_tests::job::Job;
use capi_tests::program::{fortran_program, found};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// Catches wrong sizes of elements, addresses of copies, sections with gaps that are taken for
/// ranges of memory, texts that are not ended or not cut, numbers that are cut to 32 bits, kinds of
/// integers for which there is no procedure, and procedures of the program's that are called with the
/// wrong arguments.
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
        for name in ["whole", "reverse"] {
            let job = Job::new(configuration);
            let program = fortran_program(compiler, flags, name, &["veloc"]);
            let _ = Run::new(&program).arg(job.path("veloc.cfg")).arg(job.path("routed")).succeed();
        }
    }
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
