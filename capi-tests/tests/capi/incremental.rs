//! `incremental`: checkpoints that have what was written since the last one, and every reader of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::depth::{cases, times};
use capi_tests::ground::Ground;
use capi_tests::job::{files, names, Job};
use capi_tests::mpi::{every_mpi, OPEN_MPI};
use capi_tests::program::mpi_program;
use capi_tests::random::Random;
use format::delta::{self, DeltaTable};
use os::written::WriteWatch;

const KEYS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";

/// Whether this system tells what was written.
static TELLS: LazyLock<bool> = LazyLock::new(|| WriteWatch::open().is_ok());

fn incremental(more: &str) -> String {
    format!("{KEYS}incremental = true\n{more}")
}

fn table(path: &Path) -> DeltaTable {
    let file = os::files::open(path).unwrap();
    let len = os::files::len(&file, path).unwrap();
    delta::table_of(&file, 0..len, path).unwrap().unwrap()
}

/// The tables of a directory's files, by version.
fn tables(directory: &Path) -> BTreeMap<i32, DeltaTable> {
    let versions = names(directory).into_iter().filter_map(|name| {
        let version = name.strip_prefix("x-0-")?.strip_suffix(".dat")?.parse().ok()?;
        Some((version, table(&directory.join(name))))
    });
    versions.collect()
}

/// Memory changes in every way that a process can change it. Catches bytes that were written and are not in a
/// checkpoint, of its name or another, and bytes of the wrong version, in this process or another one, from scratch and
/// from persistent.
#[test]
fn each_version_is_what_memory_was() {
    let all = [
        "",
        "host_capture = fork\n",
        "mode = sync\n",
        "incremental_chain = 1\n",
        "compress = lz4\n",
    ];
    for more in cases(3, all) {
        let job = Job::new(&incremental(more));
        let ended = job.run("incremental", "to=40 check=1").succeed();
        assert_eq!(ended.figure("found"), 40, "{more}");
        // A region that is protected in some versions is not watched then, by the library itself.
        assert!(!ended.stderr.contains("busy"), "{}", ended.stderr);
        assert_eq!(job.run("incremental", "from=40 to=40 check=1").succeed().figure("found"), 40);
        let tables = tables(&job.scratch());
        let deltas = tables.values().filter(|table| table.needed().is_some()).count();
        assert!(!*TELLS || deltas > 15, "{deltas}");
        // Without the key, as well; and with the files of persistent alone.
        job.configure(KEYS);
        fs::remove_dir_all(job.scratch()).unwrap();
        assert_eq!(job.run("incremental", "from=17 to=40 check=1").succeed().figure("found"), 40);
    }
}

/// A job goes on where another one ended, and from an older version than its last. Catches a first checkpoint that has
/// everything, and one that is taken from another version than memory was restored from.
#[test]
fn after_a_restart_the_next_is_a_delta() {
    for more in ["", "mode = sync\n", "max_versions = 2\nscratch_versions = 2\n"] {
        let job = Job::new(&incremental(more));
        job.run("incremental", "to=10 calm=1").succeed();
        job.run("incremental", "from=10 to=12 calm=1").succeed();
        let all = tables(&job.scratch());
        assert!(
            !*TELLS
                || all[&11].needed() == Some(delta::Base { version: 10, number: all[&10].number })
        );
        assert!(!*TELLS || all[&12].chain == all[&10].chain + 2);
        job.run("incremental", "from=12 to=12 check=1 calm=1").succeed();
        // The base is an older one, and the numbers are taken again.
        job.run("incremental", "from=11 to=13 calm=1").succeed();
        let all = tables(&job.scratch());
        assert!(
            !*TELLS
                || all[&12].needed() == Some(delta::Base { version: 11, number: all[&11].number })
        );
        assert_eq!(
            job.run("incremental", "from=13 to=13 calm=1 check=1").succeed().figure("found"),
            all.len() as u64
        );
    }
}

/// An adjoint computation keeps whole states. Catches a mark that is taken for a table.
#[test]
fn adjoint_computations_have_whole_states() {
    for more in ["", "mode = sync\n"] {
        let job = Job::new(&incremental(more));
        job.run("sweep", "steps=30 slots=4").succeed();
        job.run("sweep", "steps=30 slots=4 verify=1").succeed();
    }
}

/// A version that cannot be written, of which the wait has told. Catches one that is taken from it all the same, and an
/// error that does not say what else is lost.
#[test]
fn a_version_that_cannot_be_written() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\nincremental = true\n");
    job.run("incremental", "limit=1").succeed();
    let tables = tables(&job.scratch());
    assert_eq!(tables[&3].needed().is_some(), *TELLS);
    assert_eq!(tables[&5].needed(), None);
}

/// More regions than are watched. Catches changes that are taken for another region's, and a process that has used up
/// its mappings.
#[test]
fn many_regions() {
    let job = Job::new(&incremental("host_cache_size = 256M\n"));
    let ended = job.run("incremental", "many=1").succeed();
    let said = ended.stderr.matches("of 1500 regions only the 1024 largest are watched").count();
    assert_eq!(said, usize::from(*TELLS), "{}", ended.stderr);
}

/// Where nobody tells what was written, and of device memory, the blocks that are the same are left out. Catches a
/// block that has changed and is left out, files that have everything, and a reason that is not said, or each time.
#[test]
fn without_anybody_who_tells_blocks_are_compared() {
    for (arguments, more) in [
        ("forbid=1", ""),
        ("forbid=1", "compress = zstd\n"),
        ("device=1", "gpu_cache_size = 8M\n"),
        ("device=1 forbid=1", "gpu_cache_size = 8M\nhost_cache_size = 10M\n"),
    ] {
        let job = Job::new(&incremental(more));
        let run = |more: &str| job.run_device("incremental", &format!("{more} {arguments}"));
        let ended = run("to=30 check=1 calm=1 writes=5").succeed();
        assert_eq!(ended.figure("found"), 30);
        let said = ended.stderr.matches("what was written since").count();
        assert_eq!(said, usize::from(arguments.contains("forbid")), "{}", ended.stderr);
        let ended = run("from=21 to=30 check=3 calm=1 writes=5").succeed();
        assert_eq!(ended.figure("found"), 10);
        let tables = tables(&job.scratch());
        assert_eq!(tables.len(), 30);
        let deltas = tables.values().filter(|table| table.needed().is_some()).count();
        assert!(deltas >= 24, "{deltas}");
        if arguments == "device=1" {
            let of_device = |table: &DeltaTable| table.regions.iter().any(|region| region.id == 5);
            assert!(tables.values().filter(|table| of_device(table)).count() >= 20);
        }
    }
}

/// Catches chains that are too long, and files that have more than was written.
#[test]
fn a_chain_ends_and_files_are_small() {
    if !*TELLS {
        return;
    }
    for chain in [1, 3, 8] {
        let job = Job::new(&incremental(&format!("incremental_chain = {chain}\n")));
        job.run("incremental", "to=20 check=7 calm=1 writes=20 bytes=4000000").succeed();
        let files = files(&job.scratch());
        for (version, table) in tables(&job.scratch()) {
            let place = (version as u64 - 1) % (chain + 1);
            assert_eq!(table.chain, place, "{version}");
            assert_eq!(table.needed().is_some(), place > 0, "{version}");
            // Of each write a page, or of shared memory a block; it may lie across two.
            for region in &table.regions {
                let of_write = if region.id == 3 { 64 << 10 } else { 4 << 10 };
                let bytes: u64 = region.runs.iter().map(|run| run.end - run.start).sum();
                assert!(bytes <= 2 * 20 * of_write, "{version}: {bytes} of region {}", region.id);
            }
            let len = files[&format!("x-0-{version}.dat")].len() as u64;
            // The small region may be there as a whole.
            assert!(place == 0 || len < table.data() + 90_000, "{version}: {len}");
        }
    }
}

/// The application goes back, and takes versions again. Catches a version that is taken from one which was replaced.
#[test]
fn versions_that_are_taken_again() {
    for arguments in ["", "forbid=1"] {
        let job = Job::new(&incremental(""));
        let ended = job.run("incremental", &format!("to=40 back=1 check=1 {arguments}")).succeed();
        // Those behind one that was taken again, which was not reached again, are of no use.
        assert!(ended.figure("found") >= 30, "{}", ended.figure("found"));
        job.run("incremental", &format!("from=40 to=50 back=1 check=1 {arguments}")).succeed();
    }
}

/// Catches a base that is removed while a delta needs it, and versions that stay for ever.
#[test]
fn what_others_need_stays() {
    for limits in
        ["max_versions = 1\nscratch_versions = 1\n", "max_versions = 3\nscratch_versions = 2\n"]
    {
        let job = Job::new(&incremental(&format!("incremental_chain = 3\n{limits}")));
        let kept = |level: &Path| tables(level).into_keys().collect::<Vec<_>>();
        let takes = "calm=1 writes=5";
        let limit = |level: &Path| match (limits.contains("= 1"), level.ends_with("persistent")) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) => 2,
        };
        for (from, to) in [(0, 6), (6, 9), (9, 22)] {
            job.run("incremental", &format!("from={from} to={to} {takes}")).succeed();
            for level in [job.scratch(), job.persistent()] {
                let there = kept(&level);
                let newest: Vec<_> = (to + 1 - limit(&level)..=to).collect();
                assert!(there.ends_with(&newest), "{there:?}");
                assert!(there.len() <= newest.len() + 3, "{there:?}");
            }
            job.run("incremental", &format!("from={to} to={to} check=1 {takes}")).succeed();
        }
        // A job without the key knows what it finds.
        job.configure(&format!("{KEYS}{limits}"));
        job.run("incremental", &format!("from=22 to=23 {takes}")).succeed();
        fs::remove_file(job.scratch().join("x-0-23.dat")).unwrap();
        fs::remove_file(job.persistent().join("x-0-23.dat")).unwrap();
        if !limits.contains("= 1") {
            job.run("incremental", &format!("from=22 to=22 check=1 {takes}")).succeed();
        }
    }
}

/// Catches a base that is missing, damaged, or another checkpoint, and a delta that is restored all the same; and a good
/// copy in another directory that is not used.
#[test]
fn a_base_that_is_not_what_it_was() {
    if !*TELLS {
        return;
    }
    let takes = "calm=1 writes=5";
    let job = Job::new(&incremental(""));
    job.run("incremental", &format!("to=6 {takes}")).succeed();
    let newest = || {
        let ended = job.run("incremental", &format!("newest=1 {takes}")).succeed();
        (ended.figure("newest"), ended.stderr)
    };
    let change = |level: &Path, version: i32| {
        let path = level.join(format!("x-0-{version}.dat"));
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    change(&job.scratch(), 3);
    assert_eq!(newest().0, 6);
    change(&job.persistent(), 3);
    let (version, said) = newest();
    assert_eq!(version, 2, "{said}");
    assert!(said.contains("delta of version") && said.contains("x-0-3.dat"), "{said}");
    // Of another job: as good, and another one.
    let other = Job::new(&incremental(""));
    other.run("incremental", &format!("to=2 {takes}")).succeed();
    for (level, to) in [(other.scratch(), job.scratch()), (other.persistent(), job.persistent())] {
        fs::remove_file(to.join("x-0-1.dat")).unwrap();
        // With its proof.
        assert!(std::process::Command::new("cp")
            .args(["--preserve=all"])
            .args([level.join("x-0-1.dat"), to.join("x-0-1.dat")])
            .status()
            .unwrap()
            .success());
    }
    let (version, said) = newest();
    assert_eq!(version, 1, "{said}");
    assert!(said.contains("another checkpoint than"), "{said}");
    // Missing.
    fs::remove_file(job.scratch().join("x-0-1.dat")).unwrap();
    fs::remove_file(job.persistent().join("x-0-1.dat")).unwrap();
    let (version, said) = newest();
    assert_eq!(version, 0, "{said}");
    assert!(said.contains("no file of checkpoint \"x\" version 1"), "{said}");
}

/// Killed at random moments: what is restored is whole, and as new as the last call that had returned. Catches a
/// backend that writes a delta without its base, or takes the bytes for a whole one.
#[test]
fn killed_at_random_moments() {
    let mut random = Random::seeded("kills of incremental jobs");
    for kill in 0..times("VELOC_KILLS", 10, 200) {
        let more = if kill % 2 == 0 { "host_capture = fork\n" } else { "" };
        let job = Job::new(&format!(
            "mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\nincremental = true\nmax_versions = 2\n\
             scratch_versions = 2\nlog_prefix = DIR/log\n{more}"
        ));
        let storm = job.run("incremental", "storm=1").env("VELOC_LOG", "info").start();
        sleep(Duration::from_millis(random.below(400)));
        storm.signal(libc::SIGKILL);
        let killed = storm.end();
        let returned = killed.figures("returned").last().copied().unwrap_or(0);
        wait_for_backends(&job);
        let ended = job.run("incremental", "newest=1").succeed();
        let newest = ended.figure("newest");
        let log = files(&job.path("log"))
            .into_values()
            .map(|log| String::from_utf8_lossy(&log).into_owned());
        let said = format!(
            "kill {kill}: {newest}, returned {returned}: {}{}{:?}\n{}",
            killed.stderr,
            ended.stderr,
            names(&job.scratch()),
            log.collect::<String>()
        );
        assert!((returned..=returned + 1).contains(&newest), "{said}");
        wait_for_backends(&job);
    }
}

/// A number that is taken again replaces a version on which deltas may be. Catches deltas that go with it, here or in
/// persistent, also those of an earlier job and those that are still to be written.
#[test]
fn numbers_are_taken_again() {
    for mode in ["async", "sync", "async\nchksum = true\nmeta = DIR/meta"] {
        let both = "scratch = DIR/scratch\npersistent = DIR/persistent\nincremental = true\n";
        for (numbers, to) in cases(4, [(3, 4), (2, 3), (2, 5), (4, 9), (3, 7), (2, 9), (5, 23)]) {
            let job = Job::new(&format!("mode = {mode}\n{both}"));
            let run = |to: u64, check: u64| {
                let arguments = format!("turns={numbers} to={to} check={check}");
                let _ = job.run("incremental", &arguments).succeed();
                wait_for_backends(&job);
            };
            run(to, 0);
            run(to, 1);
            // Another job begins anew, and has deltas of this one before it.
            run(to - 1, 0);
            fs::remove_dir_all(job.scratch()).unwrap();
            if to > 2 * numbers {
                run(to - 1, 1);
            }
        }
    }
}

/// A number is taken again while there is no room to make the delta on it whole. Catches a base that goes all the same,
/// and an error that does not say which version stays.
#[test]
fn a_base_stays_where_a_delta_cannot_be_made_whole() {
    if !*TELLS {
        return;
    }
    let job = Job::new("mode = sync\nscratch = DIR/scratch\nincremental = true\n");
    job.run("incremental", "pair=1").succeed();
    // The file, its delta and the temporary one of the new version, but not the one of the delta.
    let ground = Ground::injected(&job, "scratch", 1_000_000);
    let failed = "size=400000 fail=x:1:x-0-1.dat_stays|later_version_is_a_delta|No_space_left";
    ground.under(job.run("script", failed)).succeed();
    job.run("incremental", "pair=1 check=1").succeed();
    job.run("script", "size=400000 take=x:1:30 restore=x:1:30 newest=x:2").succeed();
    assert_eq!(table(&job.scratch().join("x-0-2.dat")).needed(), None);
}

/// A damaged delta has nothing that its base could be kept for. Catches a number that cannot be taken any more.
#[test]
fn a_damaged_delta_holds_no_base() {
    if !*TELLS {
        return;
    }
    let job = Job::new("mode = sync\nscratch = DIR/scratch\nincremental = true\n");
    job.run("incremental", "pair=1").succeed();
    let path = job.scratch().join("x-0-2.dat");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let commands = "size=400000 take=x:1:30 refuse=x:2 newest=x:1 restore=x:1:30";
    let ended = job.run("script", commands).succeed();
    assert!(ended.stderr.contains("is lost with its base"), "{}", ended.stderr);
}

/// Several processes, whose files have parities. Catches bases that are removed for all when one needs them.
#[test]
fn processes_of_a_job() {
    for more in ["ec_interval = 0\nscratch_versions = 2\n"] {
        let job = Job::new(&format!(
            "mode = async\nscratch = DIR/scratch\nincremental = true\nincremental_chain = 3\n{more}"
        ));
        for mpi in every_mpi(&OPEN_MPI) {
            let run = |arguments: &str| {
                let run = mpi.start(3)?.env(MARK, job.path(""));
                let run = run.arg(mpi_program(mpi.compiler, "incremental.c"));
                Some(run.arg(job.path("veloc.cfg")).args(arguments).succeed())
            };
            let Some(_) = run("to=18 bytes=300000 check=1") else { return };
            let deltas = tables(&job.scratch());
            let deltas = deltas.values().filter(|table| table.needed().is_some()).count();
            assert!(!*TELLS || deltas > 0, "{more}");
            run("from=18 to=18 bytes=300000 check=1");
            // Rank 1 comes to another node.
            for name in names(&job.scratch()) {
                if name.contains("x-1-") || name.contains("y-1-") {
                    fs::remove_file(job.scratch().join(name)).unwrap();
                }
            }
            run("from=18 to=18 bytes=300000 check=16");
            let _ = fs::remove_dir_all(job.scratch());
        }
    }
}
