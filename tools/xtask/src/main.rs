//! `cargo xtask`: the project's own commands.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use xtask::stage::{stage, Profile};
use xtask::{
    bundle, docs, map, notices, nvidia, package, programs, quick, release, repeat, runner, site,
    suite, Result,
};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    task: ProjectTask,
}

#[derive(Debug, Subcommand)]
enum ProjectTask {
    /// Run the demonstration, on the GPU if there is one, else on the software device
    ///
    /// The arguments are its own; --help shows them.
    #[command(disable_help_flag = true)]
    Rtm {
        /// Arguments of the demonstration
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Run the program `veloc`, on the GPU if there is one, else on the software device
    ///
    /// The arguments are its own; --help shows them.
    #[command(disable_help_flag = true)]
    Veloc {
        /// Arguments of the program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Run the program `veloc-bench`, on the GPU if there is one, else on the software device
    ///
    /// The arguments are its own; --help shows them.
    #[command(disable_help_flag = true)]
    VelocBench {
        /// Arguments of the program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Run the checks and tests of every day, or all
    Test {
        /// Go on after a check that has failed
        #[arg(long)]
        keep_going: bool,
        /// Run this check alone; can be given several times
        #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(suite::names()))]
        only: Vec<String>,
        /// Everything, as before a release; a run without it says at its end what that is
        #[arg(long)]
        all: bool,
        /// Run the tests alone, the quick ones first, up to the first that fails
        #[arg(long, conflicts_with_all = ["keep_going", "only", "repeat"])]
        fail_fast: bool,
        /// Run the tests alone, so often and under load, and name those that fail
        #[arg(long, value_name = "N", conflicts_with_all = ["keep_going", "only", "all"])]
        repeat: Option<NonZeroU32>,
        /// With --repeat: only the tests whose names contain this; without, see `cargo test`
        #[arg(requires = "repeat", conflicts_with_all = ["keep_going", "only", "all", "fail_fast"])]
        filter: Option<String>,
    },
    /// Check what has changed, in less than a minute (the first time in some minutes): format, lints, unit tests, one
    /// C program
    ///
    /// Changed is what differs from the last commit, or, if nothing does, what that commit has changed.
    Quick,
    /// Build the library and the software device and lay them out, as `lib`, `include`, `softcuda`
    Stage {
        /// With optimisation
        #[arg(long)]
        release: bool,
    },
    /// Install the package and build the wheel for Python, and run programs that use them
    Package,
    /// Make a folder that tests and measures the library on a machine with a GPU, without Rust
    GpuBundle {
        /// Where to make it [default: <target>/gpu-bundle]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Make the files of a release from the last commit, and try each in an environment of its own
    ///
    /// These are the sources, the wheel for Python, the package for Debian, and their checksums. What cannot be
    /// made or tried here is named at the end.
    Release {
        /// Where to put them [default: <target>/release-files]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Check the kernels and all calls of the driver against NVIDIA's compilers, headers and libraries
    ///
    /// Runs programs of these compilers on the software device, too. Fetches all as packages, a few hundred MB, and
    /// keeps them in the target directory. They are not free software. What cannot be had is skipped by
    /// name.
    Nvidia,
    /// Make the headers of C in include from src/capi
    Header {
        /// Write nothing; fail if they differ
        #[arg(long)]
        check: bool,
    },
    /// Make THIRD-PARTY-NOTICES from the licences of the crates that are linked in, by cargo-about
    Notices {
        /// Write nothing; fail if it lists other crates or versions than cargo does
        #[arg(long)]
        check: bool,
    },
    /// Make the site: the documents as pages, and the interfaces beside them
    ///
    /// Installs mdBook below the target directory where there is none, which takes minutes.
    Site {
        /// Where to make it [default: <target>/site/html]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Put the tables of configuration keys into docs/configuration.md, and the map of tests into docs/test-map.md
    Docs {
        /// Write nothing; fail if it differs
        #[arg(long)]
        check: bool,
    },
}

fn run(task: ProjectTask) -> Result<()> {
    match task {
        ProjectTask::Rtm { arguments } => programs::rtm(&arguments, &[], Path::new(".")),
        ProjectTask::Veloc { arguments } => programs::veloc(&arguments),
        ProjectTask::VelocBench { arguments } => programs::veloc_bench(&arguments),
        ProjectTask::Test { repeat: Some(times), filter, .. } => {
            repeat::repeat(times, filter.as_deref())
        }
        ProjectTask::Test { fail_fast: true, all, .. } => runner::first_failure(all),
        ProjectTask::Test { keep_going, only, all, .. } => suite::test(&only, keep_going, all),
        ProjectTask::Quick => quick::quick(),
        ProjectTask::Stage { release } => {
            let profile = if release { Profile::Release } else { Profile::Debug };
            println!("{}", stage(profile)?.folder.display());
            Ok(())
        }
        ProjectTask::Package => {
            package::check(Profile::Release)?.iter().for_each(|what| println!("skipped: {what}"));
            Ok(())
        }
        ProjectTask::GpuBundle { out } => {
            println!("{}", bundle::make(out)?.display());
            Ok(())
        }
        ProjectTask::Release { out } => {
            print!("{}", release::make(out)?);
            Ok(())
        }
        ProjectTask::Nvidia => {
            nvidia::check()?.into_iter().for_each(|why| println!("skipped: {why}"));
            Ok(())
        }
        ProjectTask::Site { out } => {
            let site = site::make(out)?;
            site.skipped.iter().for_each(|what| println!("skipped: {what}"));
            println!("{}", site.folder.join("index.html").display());
            Ok(())
        }
        ProjectTask::Header { check } => docs::headers(check),
        ProjectTask::Notices { check: true } => notices::check(),
        ProjectTask::Notices { check: false } => notices::update(),
        ProjectTask::Docs { check: true } => docs::check().and_then(|()| map::check()),
        ProjectTask::Docs { check: false } => docs::update().and_then(|()| map::update()),
    }
}

fn main() -> ExitCode {
    match run(CommandLine::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a filter that is ignored, so that all steps run.
    #[test]
    fn a_filter_is_of_repeated_tests_alone() {
        let parses = |words: &str| {
            CommandLine::try_parse_from(format!("xtask test {words}").split(' ')).is_ok()
        };
        assert!(parses("--repeat 3 name") && parses("--all --keep-going"));
        for words in
            ["name", "--keep-going name", "--all name", "--fail-fast name", "--only tests name"]
        {
            assert!(!parses(words), "{words}");
        }
    }
}
