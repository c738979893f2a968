//! The MPI installations of the machine, under the names that Debian gives their commands.

use std::path::Path;
use std::process::Command;

use super::clean;
use crate::project::has_program;

#[derive(Clone, Copy, Debug)]
pub(super) struct MpiInstallation {
    /// The ending of the names of its commands.
    pub name: &'static str,
    arguments: &'static [&'static str],
}

const KNOWN: [MpiInstallation; 2] = [
    MpiInstallation { name: "openmpi", arguments: &["--allow-run-as-root", "--oversubscribe"] },
    MpiInstallation { name: "mpich", arguments: &[] },
];

/// The installations on this machine, and what is skipped without the others.
pub(super) fn found() -> (Vec<MpiInstallation>, Vec<String>) {
    let (found, absent): (Vec<MpiInstallation>, Vec<MpiInstallation>) =
        KNOWN.iter().partition(|mpi| has_program(&mpi.command("mpicc")));
    let say =
        |mpi: MpiInstallation| format!("programs over MPI: there is no {}", mpi.command("mpicc"));
    (found, absent.into_iter().map(say).collect())
}

impl MpiInstallation {
    pub(super) fn command(&self, name: &str) -> String {
        format!("{name}.{}", self.name)
    }

    /// A command that starts a program as three processes.
    pub(super) fn starter(&self, program: &Path) -> Command {
        let mut command = clean(self.command("mpirun"));
        command.args(self.arguments).args(["-n", "3"]).arg(program);
        command
    }
}
