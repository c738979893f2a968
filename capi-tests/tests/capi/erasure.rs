//! Erasure coding over MPI: every process has a scratch directory of its own, some of which are
//! lost between two jobs. The processes check this in `mpi/erasure.c`.

mod damage;
mod places;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use capi_tests::job::{files, names, Job};
use capi_tests::program::mpi_program;
use capi_tests::run::Ended;

use crate::backend::flood::flood;
use crate::mpi::{every_mpi, Mpi, MPICH, OPEN_MPI};

/// Jobs of so many processes, one after the other, in one directory.
struct Jobs {
    job: Job,
    mpi: &'static Mpi,
    program: PathBuf,
    processes: usize,
}

impl Jobs {
    /// `None` if this MPI is not installed.
    fn new(mpi: &'static Mpi, processes: usize, configuration: &str) -> Option<Jobs> {
        mpi.start(1)?;
        // This line is for the reader alone: every process overrides it.
        let configuration =
            format!("scratch = DIR/scratch\nhost_cache_size = 64M\n{configuration}");
        let job = Job::new(&configuration);
        Some(Jobs { job, mpi, program: mpi_program(mpi.compiler, "../mpi/erasure.c"), processes })
    }

    fn run(&self, arguments: &str) -> Ended {
        let run = self.mpi.start(self.processes).unwrap();
        run.env("VELOC_LOG", "info")
            .arg(&self.program)
            .arg(self.job.path("veloc.cfg"))
            .arg(format!("dir={}", self.job.path("").display()))
            .args(arguments)
            .end()
    }

    fn good(&self, arguments: &str) -> Ended {
        self.run(arguments).succeeded()
    }

    /// A run that is to end with the reason why a version cannot be restored.
    fn refused(&self, lost: usize, version: i32, words: &str) {
        let arguments = format!("case=refused to={version} lost={lost}");
        let run = self.mpi.start(self.processes).unwrap();
        let ended = run
            .arg(&self.program)
            .arg(self.job.path("veloc.cfg"))
            .arg(format!("dir={}", self.job.path("").display()))
            .args(&arguments)
            .arg(format!("words={words}"))
            .end();
        let _ = ended.succeeded();
    }

    fn scratch(&self, rank: usize) -> PathBuf {
        self.job.path(&format!("scratch-{rank}"))
    }

    fn data(&self, rank: usize, version: i32) -> PathBuf {
        self.scratch(rank).join(format!("x-{rank}-{version}.dat"))
    }

    fn parity(&self, rank: usize, version: i32) -> PathBuf {
        self.scratch(rank).join(format!(".x-{rank}-{version}.dat.parity"))
    }

    fn lose(&self, rank: usize) {
        fs::remove_dir_all(self.scratch(rank)).unwrap();
    }

    fn all(&self) -> Vec<BTreeMap<String, Vec<u8>>> {
        (0..self.processes).map(|rank| files(&self.scratch(rank))).collect()
    }

    /// The versions for which every process keeps parities.
    fn protected(&self) -> Vec<i32> {
        let of = |rank: usize| {
            let versions = |name: &String| {
                let name = name.strip_prefix(&format!(".x-{rank}-"))?;
                name.strip_suffix(".dat.parity")?.parse::<i32>().ok()
            };
            let mut found: Vec<i32> =
                names(&self.scratch(rank)).iter().filter_map(versions).collect();
            found.sort_unstable();
            found
        };
        let first = of(0);
        assert!((1..self.processes).all(|rank| of(rank) == first), "not all alike");
        first
    }
}

fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn damage_middle(path: &Path) {
    damage(path, fs::metadata(path).unwrap().len() as usize / 2);
}

/// Catches a port at which any client gets a descriptor and a thread of the process for as long as
/// it likes, so that the application has none left for its checkpoints.
fn strangers(mpi: &'static Mpi) {
    let Some(jobs) = Jobs::new(mpi, 3, "mode = sync\nec_interval = 0\n") else { return };
    jobs.good(&format!("case=take to=12 strangers={}", flood(400)));
    assert_eq!(jobs.protected(), Vec::from_iter(1..=12));
}

#[test]
fn strangers_call_open_mpi() {
    strangers(&OPEN_MPI);
}

#[test]
fn strangers_call_mpich() {
    strangers(&MPICH);
}

/// One directory of four is lost, then another one: everything is as it was, parities included.
fn one_lost(mpi: &'static Mpi, mode: &str) {
    let configuration = format!("mode = {mode}\nec_interval = 0\n");
    let Some(jobs) = Jobs::new(mpi, 4, &configuration) else { return };
    let ended = jobs.good("case=take");
    let warned = ended.stderr.contains("in the failure domain");
    assert!(warned, "one host is not protected:\n{}", ended.stderr);
    assert_eq!(jobs.protected(), [1, 2, 3]);
    let before = jobs.all();
    jobs.lose(2);
    let ended = jobs.good("case=restore expect=3");
    assert!(ended.stderr.contains("it was rebuilt from those of ranks [0, 1, 3]"));
    let version = |files: &BTreeMap<String, Vec<u8>>| {
        let of_3 = |(name, _): &(&String, &Vec<u8>)| name.contains("-3.dat");
        files.iter().filter(of_3).map(|(n, c)| (n.clone(), c.clone())).collect::<Vec<_>>()
    };
    for (before, after) in before.iter().zip(&jobs.all()) {
        assert_eq!(version(before).len(), 2);
        assert!(version(before) == version(after), "not what it was");
    }
    jobs.lose(0);
    jobs.good("case=begin to=3");
    // Version 2 was not rebuilt for process 2, which therefore lacks two files.
    jobs.refused(2, 2, "both files of rank 0|both files of rank 2");
}

#[test]
fn one_lost_directory_is_rebuilt_under_open_mpi() {
    one_lost(&OPEN_MPI, "async");
}

#[test]
fn one_lost_directory_is_rebuilt_under_mpich() {
    one_lost(&MPICH, "sync");
}

/// Two parities: two directories may be lost, also of one failure domain, and not three.
#[test]
fn two_lost_directories_are_rebuilt() {
    let configuration = "mode = async\nec_interval = 0\nec_parity = 2\n";
    let Some(jobs) = Jobs::new(&MPICH, 5, configuration) else { return };
    jobs.good("case=take to=3");
    let before = jobs.all();
    jobs.lose(1);
    jobs.lose(3);
    jobs.good("case=restore expect=3");
    jobs.lose(0);
    jobs.lose(3);
    jobs.lose(4);
    jobs.refused(4, 3, "both files of rank 0|both files of rank 3|both files of rank 4");
    jobs.good("case=restore expect=-1");
    assert!(before[1]["x-1-3.dat"] == files(&jobs.scratch(1))["x-1-3.dat"]);
}

/// A version that cannot be rebuilt is passed over, for the newest version that can.
#[test]
fn an_older_version_is_taken_when_the_newest_is_lost() {
    let Some(jobs) = Jobs::new(&MPICH, 4, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=take");
    for rank in [1, 2] {
        fs::remove_file(jobs.data(rank, 3)).unwrap();
        fs::remove_file(jobs.parity(rank, 3)).unwrap();
    }
    jobs.lose(3);
    let ended = jobs.good("case=restore expect=2");
    let said = "passing over version 3 of \"x\"";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// Five processes in groups of three and two; one lost of each.
#[test]
fn groups_of_uneven_size() {
    let configuration = "mode = async\nec_interval = 0\nec_group = 3\n";
    let Some(jobs) = Jobs::new(&MPICH, 5, configuration) else { return };
    jobs.good("case=take to=1");
    jobs.lose(0);
    jobs.lose(1);
    jobs.good("case=restore expect=1");
}

/// The processes of a failure domain are in different groups: all of its directories may be lost.
#[test]
fn a_failure_domain_may_be_lost() {
    let Some(jobs) = Jobs::new(&MPICH, 6, "mode = async\nec_interval = 0\n") else { return };
    let ended = jobs.good("case=take to=1 per_domain=2");
    assert!(!ended.stderr.contains("in the failure domain"), "{}", ended.stderr);
    jobs.lose(2);
    jobs.lose(3);
    // Groups formed by hosts differ from those of the files.
    jobs.good("case=restore expect=1");
}

#[test]
fn an_interval_that_does_not_end_protects_nothing() {
    let Some(jobs) = Jobs::new(&MPICH, 2, "mode = async\nec_interval = 86400\n") else { return };
    jobs.good("case=take to=3");
    assert!(jobs.protected().is_empty());
}

/// At most one version in an interval is protected, the same in all groups.
#[test]
fn an_interval_chooses_the_same_versions_everywhere() {
    let configuration = "mode = async\nec_interval = 1\nec_group = 2\n";
    let Some(jobs) = Jobs::new(&MPICH, 4, configuration) else { return };
    jobs.good("case=take to=30 pause=50");
    let protected = jobs.protected();
    assert!(!protected.is_empty());
    jobs.lose(1);
    jobs.good(&format!("case=restore expect={}", protected.last().unwrap()));
}

/// A protected version stays in scratch until another one is protected, also beyond
/// `scratch_versions`: in this job, and after an earlier one. Catches a limit that leaves versions
/// without parities alone.
#[test]
fn a_limit_leaves_what_is_protected() {
    let of_scratch = "mode = async\nscratch_versions = 1\n";
    let Some(jobs) = Jobs::new(&MPICH, 4, &format!("{of_scratch}ec_interval = 1\n")) else {
        return;
    };
    jobs.good("case=take to=30 pause=50");
    let protected = jobs.protected();
    let last = *protected.last().unwrap();
    assert_eq!(protected.len(), 1, "{protected:?}");
    for rank in 0..4 {
        assert_eq!(names(&jobs.scratch(rank)).len(), 3 - usize::from(last == 30));
    }
    let restore = format!("case=restore expect={last}");
    let configure = |interval| {
        let text = format!("scratch = DIR/scratch\nhost_cache_size = 64M\n{of_scratch}{interval}");
        jobs.job.configure(&text);
    };
    // The next job protects nothing for a day.
    configure("ec_interval = 86400\n");
    jobs.good("case=take from=31 to=40");
    assert_eq!(jobs.protected(), [last]);
    jobs.lose(1);
    jobs.good(&restore);
    // The job after that protects each version.
    configure("ec_interval = 0\n");
    jobs.good("case=take from=41 to=50");
    assert_eq!(jobs.protected(), [50]);
    assert_eq!(names(&jobs.scratch(2)).len(), 2);
}

/// Files of the application's own, with the notes that identify them.
#[test]
fn files_of_the_application_are_rebuilt() {
    let Some(jobs) = Jobs::new(&MPICH, 3, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=route to=1");
    assert_eq!(jobs.protected(), [1]);
    jobs.lose(1);
    jobs.good("case=reroute expect=1");
}

#[test]
fn parities_go_with_their_checkpoints() {
    let Some(jobs) = Jobs::new(&MPICH, 3, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=take");
    assert_eq!(jobs.protected(), [1, 2, 3]);
    // Files whose checkpoint does not exist any more are rebuilt as well.
    fs::remove_file(jobs.data(1, 2)).unwrap();
    jobs.good("case=cleanup");
    for rank in 0..3 {
        assert!(names(&jobs.scratch(rank)).is_empty(), "{:?}", names(&jobs.scratch(rank)));
    }
}

/// The whole job is killed while parities are being made: restored files are whole.
#[test]
fn a_job_that_is_killed_while_it_encodes() {
    let Some(jobs) = Jobs::new(&MPICH, 4, "mode = sync\nec_interval = 0\n") else { return };
    jobs.good("case=take to=2");
    assert!(!jobs.run("case=die to=3").status.success());
    jobs.lose(0);
    let complete = (1..4).all(|rank| jobs.parity(rank, 3).exists());
    jobs.good(&format!("case=restore expect={}", if complete { 3 } else { 2 }));
}

#[test]
fn one_process_is_told_that_it_is_not_protected() {
    let Some(jobs) = Jobs::new(&MPICH, 1, "mode = async\nec_interval = 0\n") else { return };
    let ended = jobs.good("case=take");
    assert!(ended.stderr.contains("1 processes are too few"), "{}", ended.stderr);
    jobs.good("case=restore expect=3");
}

#[test]
fn processes_must_be_configured_alike() {
    let Some(jobs) = Jobs::new(&MPICH, 3, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=init other=2 words=ec_parity");
}

/// Processes that have taken different versions, and of which one alone drains, end, with parities
/// of the versions that all have. Catches an endless wait for parities in which not all processes
/// take part, and an error because the library's own listener has ended.
#[test]
fn a_drain_of_one_process_is_one_of_all() {
    for mpi in every_mpi() {
        for more in ["max_versions = 2\nscratch_versions = 2\n", "aggregated = true\n", ""] {
            let job = Job::new(&format!(
                "mode = async\nec_interval = 0\nscratch = DIR/scratch\n\
                 persistent = DIR/persistent\nmeta = DIR/meta\n{more}"
            ));
            let commands = "take=x:1 take=x:2 @0:take=x:3 @0:take=x:4 @2:take=x:3 \
                            @0:finalize=1 @1:finalize=0 @2:finalize=0";
            let Some(run) = mpi.script(&job, commands) else { return };
            let ended = run.succeed();
            assert!(!ended.stderr.contains("accepting a call"), "{}", ended.stderr);
            for rank in 0..3 {
                let parity = job.scratch().join(format!(".x-{rank}-2.dat.parity"));
                assert!(parity.exists(), "{more}: {:?}", names(&job.scratch()));
            }
        }
    }
}
