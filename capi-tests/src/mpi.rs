//! Installations of MPI: their compilers, and how they start a job.

use crate::backends::MARK;
use crate::depth::is_all;
use crate::job::Job;
use crate::program::{found, mpi_program, patient, staged};
use crate::run::Run;

/// An MPI installation as Debian names its commands.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    /// Its C compiler.
    pub compiler: &'static str,
    /// Its Fortran compiler.
    pub fortran: &'static str,
    /// The library of its C functions, as programs load it.
    pub library: &'static str,
    starter: &'static str,
    arguments: &'static str,
}

/// Open MPI, by root, on any number of cores. A process that waits gives its core to others.
pub const OPEN_MPI: Mpi = Mpi {
    compiler: "mpicc.openmpi",
    fortran: "mpifort.openmpi",
    library: "libmpi.so.40",
    starter: "mpirun.openmpi",
    arguments: "--allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1",
};

/// MPICH.
pub const MPICH: Mpi = Mpi {
    compiler: "mpicc.mpich",
    fortran: "mpifort.mpich",
    library: "libmpich.so.12",
    starter: "mpirun.mpich",
    arguments: "",
};

/// The installations for a test that is the same under each: both with `cargo xtask test --all`,
/// otherwise one, `first` if it is there.
pub fn every_mpi(first: &Mpi) -> impl Iterator<Item = &'static Mpi> {
    let mut both = [&OPEN_MPI, &MPICH];
    both.sort_by_key(|mpi| (found(mpi.compiler).is_none(), mpi.compiler != first.compiler));
    both.into_iter().take(if is_all() { 2 } else { 1 })
}

impl Mpi {
    /// A command that starts so many processes, if this MPI is installed.
    pub fn start(&self, processes: usize) -> Option<Run> {
        let (Some(_), Some(starter)) = (found(self.compiler), found(self.starter)) else {
            println!("skipped: {} is not installed", self.compiler);
            return None;
        };
        // Open MPI makes and removes a folder for all jobs of a user, and fails if two do so at once.
        let folder = staged().folder.join(format!("ompi/{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let run = Run::new(&starter).env("OMPI_MCA_orte_tmpdir_base", folder);
        // A test that preloads something else does without it.
        let run = run.env("LD_PRELOAD", patient());
        Some(run.args(self.arguments).arg("-n").arg(processes.to_string()))
    }

    /// A run of the script program on three processes.
    pub fn script(&self, job: &Job, commands: &str) -> Option<Run> {
        let run = self.start(3)?.env(MARK, job.path(""));
        let run = run.arg(mpi_program(self.compiler, "script.c"));
        Some(run.arg(job.path("veloc.cfg")).args(commands))
    }
}
