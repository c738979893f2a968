//! The library over MPI: one and the same binary of ours under Open MPI and under MPICH, neither of
//! which it is linked to. What is checked stands in `mpi/together.c`.

use capi_tests::job::Job;
use capi_tests::program::{found, mpi_program};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

/// An MPI installation as Debian names its commands.
pub(crate) struct Mpi {
    pub(crate) compiler: &'static str,
    starter: &'static str,
    arguments: &'static str,
}

pub(crate) const OPEN_MPI: Mpi = Mpi {
    compiler: "mpicc.openmpi",
    starter: "mpirun.openmpi",
    arguments: "--allow-run-as-root --oversubscribe",
};
pub(crate) const MPICH: Mpi =
    Mpi { compiler: "mpicc.mpich", starter: "mpirun.mpich", arguments: "" };

impl Mpi {
    /// What starts so many processes, if this MPI is installed.
    pub(crate) fn start(&self, processes: usize) -> Option<Run> {
        let (Some(_), Some(starter)) = (found(self.compiler), found(self.starter)) else {
            println!("skipped: {} is not installed", self.compiler);
            return None;
        };
        Some(Run::new(&starter).args(self.arguments).arg("-n").arg(processes.to_string()))
    }
}

fn under(mpi: &Mpi) {
    if mpi.start(1).is_none() {
        return;
    }
    let program = mpi_program(mpi.compiler, "together");
    for case in ["together", "misfit"] {
        let job = Job::new(CONFIGURATION);
        let Some(run) = mpi.start(3) else { return };
        run.arg(&program)
            .arg(job.path("veloc.cfg"))
            .arg(format!("case={case}"))
            .arg(format!("scratch={}", job.scratch().display()))
            .succeed();
    }
    let job = Job::new(CONFIGURATION);
    Run::new(&program).arg(job.path("veloc.cfg")).arg("case=single").succeed();
}

/// Catches handles read at the wrong width or from the wrong copy of `ompi_mpi_comm_world`.
#[test]
fn open_mpi() {
    under(&OPEN_MPI);
}

/// Catches handles that are not cut to 32 bits.
#[test]
fn mpich() {
    under(&MPICH);
}
