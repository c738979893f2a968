//! The Fortran module, compiled as its users compile it. The checks are in `fortran/`.

use std::process::Command;

use capi_tests::job::Job;
use capi_tests::mpi::{MPICH, OPEN_MPI};
use capi_tests::program::{fortran_program, found};
use capi_tests::run::Run;
use xtask::system::FLANG;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// Catches wrong sizes of elements, addresses of copies, sections with gaps that are taken for
/// ranges of memory, texts that are not ended or not cut, numbers that are cut to 32 bits, kinds of
/// integers for which there is no procedure, and procedures of the program's that get wrong
/// arguments.
#[test]
fn without_mpi() {
    without_mpi_by("gfortran");
}

/// The Fortran module with LLVM's compiler, which passes arrays in other descriptors.
#[test]
fn by_flang() {
    match FLANG.into_iter().find(|name| found(name).is_some()) {
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
            let program = fortran_program(compiler, flags, &["checks", name], &["veloc"]);
            let _ = Run::new(&program).arg(job.path("veloc.cfg")).arg(job.path("routed")).succeed();
        }
    }
}

/// Catches an interface that takes what is gone behind the call, or is not to be changed: a restart would write there.
/// The program beside it protects what may be protected.
#[test]
fn the_compiler_refuses_what_is_no_variable() {
    const ARRAYS: &[&str] = &[
        "(u)",
        "2 * u",
        "u(1:5) + 0",
        "7.5d0",
        "[1, 2]",
        "twice(u)",
        "u(order)",
        "constant",
        "only_read",
    ];
    const CALLS: &[&str] = &[
        "VELOC_Mem_protect(0, ARRAY, err)",
        "VELOC_Region_protect(0, ARRAY, 'x', err)",
        "VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, ARRAY, err)",
    ];
    let right = include_str!("../../fortran/temporaries.f90");
    let line = 1 + right.lines().position(|line| line.trim() == "! WRONG").unwrap();
    let calls =
        CALLS.iter().flat_map(|call| ARRAYS.iter().map(|array| call.replace("ARRAY", array)));
    let calls: Vec<String> = calls.map(|call| format!("call {call}")).collect();
    for compiler in compilers() {
        for flags in [&[][..], &["-fdefault-integer-8"]] {
            let program = fortran_program(compiler, flags, &["checks", "temporaries"], &["veloc"]);
            let job = Job::new(CONFIGURATION);
            let _ = Run::new(&program).arg(job.path("veloc.cfg")).succeed();

            let wrong = job.path("wrong.f90");
            std::fs::write(&wrong, right.replace("! WRONG", &calls.join("\n"))).unwrap();
            let mut command = Command::new(compiler);
            // The modules are beside the program.
            command.args(flags).args(["-std=f2018", "-fsyntax-only", "-I"]);
            command.arg(program.parent().unwrap()).arg("-J").arg(job.path("")).arg(&wrong);
            // It would stop after 25.
            command.args((compiler == "gfortran").then_some("-fmax-errors=0"));
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success());
            for (nth, call) in calls.iter().enumerate() {
                let place = format!("wrong.f90:{}:", line + nth);
                assert!(said.contains(&place), "{compiler} {flags:?} takes: {call}\n{said}");
            }
        }
    }
}

/// The module for compilers that are told to take nothing newer than Fortran 2003, or can take
/// nothing newer. Catches newer features in it, warnings, and wrong addresses, lists, sizes or
/// buffers.
#[test]
fn in_fortran_2003() {
    if found("gfortran").is_none() {
        println!("skipped: gfortran is not installed");
        return;
    }
    for standard in ["-std=f2003", "-std=f2008", "-std=f2018"] {
        let job = Job::new(CONFIGURATION);
        let flags = &[standard, "-pedantic", "-Werror"];
        let modules = &["veloc_2003", "veloc_schedules"];
        let program = fortran_program("gfortran", flags, &["strict"], modules);
        let _ = Run::new(&program).arg(job.path("veloc.cfg")).succeed();
    }
}

/// The Fortran compilers that are installed; that there is none is said.
fn compilers() -> Vec<&'static str> {
    let all = ["gfortran"].into_iter().chain(FLANG);
    let installed: Vec<_> = all.filter(|name| found(name).is_some()).collect();
    if installed.is_empty() {
        println!("skipped: no Fortran compiler is installed");
    }
    installed
}

/// Catches an argument of a schedule that is passed in the wrong way, and a struct with other members.
#[test]
fn schedules() {
    for compiler in compilers() {
        for flags in [&[][..], &["-fdefault-integer-8"]] {
            let modules = &["veloc", "veloc_schedules"];
            let _ = Run::new(&fortran_program(compiler, flags, &["checks", "schedules"], modules))
                .succeed();
        }
    }
}

/// Catches an argument of VELOC_Pmem_* that is passed in the wrong way, a procedure that is not called back, and texts
/// that are cut off.
#[test]
fn arrays_in_persistent_memory() {
    for compiler in compilers() {
        for flags in [&[][..], &["-fdefault-integer-8"]] {
            let modules = &["veloc", "veloc_arrays"];
            let program = fortran_program(compiler, flags, &["arrays"], modules);
            let folder = tempfile::tempdir().unwrap();
            let run = |last: &str, wrong: &str| {
                let path = folder.path().join("arrays");
                Run::new(&program).arg(path).arg(last).arg(wrong).succeed().stdout
            };
            assert!(run("5", "-1").contains("iteration -1\n"), "{compiler}");
            assert!(run("6", "-1").contains("tried 5 1 \niteration 5\n"));
            assert!(run("6", "6").contains("tried 6 0 sum\ntried 5 1 \niteration 5\n"));
        }
    }
}

/// Catches an integer that is passed as a communicator without being translated.
#[test]
fn over_mpi() {
    for mpi in [OPEN_MPI, MPICH] {
        if found(mpi.fortran).is_none() {
            println!("skipped: {} is not installed", mpi.fortran);
            continue;
        }
        let long = &["-fdefault-integer-8"][..];
        for (program, modules, flags) in [
            ("together", &["veloc"][..], &[][..]),
            ("together_f08", &["veloc", "veloc_f08"], &[]),
            ("together_f08", &["veloc", "veloc_f08"], long),
        ] {
            let job = Job::new(CONFIGURATION);
            let Some(run) = mpi.start(3) else { continue };
            let program = fortran_program(mpi.fortran, flags, &[program], modules);
            let _ = run.arg(&program).arg(job.path("veloc.cfg")).succeed();
        }
    }
}

/// The adjoint of the guide, with a model. Catches a guide that does not compile, or is wrong.
#[test]
fn the_adjoint_of_the_guide() {
    let page = include_str!("../../../docs/guide/fortran.md");
    let blocks = page.split("```fortran\n").filter_map(|text| text.split("```").next());
    // Other blocks are whole programs.
    let mut blocks = blocks.skip_while(|block| !block.starts_with("module flow"));
    let (module, call) = (blocks.next().unwrap(), blocks.next().unwrap());
    let (declared, call) = call.split_once('\n').unwrap();
    let program = format!(
        "{module}
program guide
  use flow
  implicit none
  {declared}
  character(len=400) :: text
  integer :: err
  allocate(u(5, 4), lambda(5, 4))
  u = 0.5_8
  call get_command_argument(1, text)
  call VELOC_Init_single(0, text, err)
{call}  if (err /= VELOC_SCES) print '(a)', trim(text)
  call VELOC_Finalize(1, err)
contains
  subroutine use_gradient()
    if (all(abs(lambda - {}_8) < 1e-12_8)) print '(a)', 'done'
  end subroutine
end program
subroutine step(u)
  real(8), intent(inout) :: u(5, 4)
  u = u + 1e-3_8 * u * (1 - u)
end subroutine
subroutine begin_adjoint()
  use flow, only: lambda
  lambda = 1
end subroutine
subroutine step_adjoint(u, lambda)
  real(8), intent(in) :: u(5, 4)
  real(8), intent(inout) :: lambda(5, 4)
  lambda = lambda * (1 + 1e-3_8 * (1 - 2 * u))
end subroutine
",
        derivative()
    );
    let job = Job::new(CONFIGURATION);
    std::fs::write(job.path("guide.f90"), program).unwrap();
    let name = job.path("guide");
    let program = fortran_program("gfortran", &[], &[name.to_str().unwrap()], &["veloc"]);
    let _ = Run::new(&program).arg(job.path("veloc.cfg")).succeed();
}

/// The derivative of the model's last state by its first.
fn derivative() -> f64 {
    let (mut u, mut slope) = (0.5, 1.0);
    for _ in 0..1000 {
        slope *= 1.0 + 1e-3 * (1.0 - 2.0 * u);
        u += 1e-3 * u * (1.0 - u);
    }
    slope
}
