//! The Fortran module, compiled as its users compile it. What is checked stands in `fortran/`.

use capi_tests::job::Job;
use capi_tests::program::{fortran_program, found};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// Catches wrong sizes of elements, addresses of copies, sections with gaps that are taken for
/// ranges of memory, texts that are not ended or not cut.
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
    for configuration in [CONFIGURATION, "mode = sync\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        let program = fortran_program(compiler, "whole", &["veloc"]);
        let _ = Run::new(&program).arg(job.path("veloc.cfg")).arg(job.path("routed")).succeed();
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
        for (program, modules) in
            [("together", &["veloc"][..]), ("together_f08", &["veloc", "veloc_f08"][..])]
        {
            let job = Job::new(CONFIGURATION);
            let program = fortran_program(&compiler, program, modules);
            let run = Run::new(&starter).args(arguments).arg(&program);
            let _ = run.arg(job.path("veloc.cfg")).succeed();
        }
    }
}
