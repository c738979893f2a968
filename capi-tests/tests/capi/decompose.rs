//! Arrays that the processes share (`VELOC_Mem_decompose`): a job of any number of processes restores them from what
//! another number has left. The checks are in `mpi/decompose.c`; `examples/plate` is a program that does so.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::cxx;
use capi_tests::depth::cases;
use capi_tests::job::Job;
use capi_tests::mpi::{Mpi, OPEN_MPI};
use capi_tests::program::{fortran_example, found, mpi_program, staged};
use capi_tests::run::{Ended, Run};

use crate::mpi::every_mpi;

const DIRECTORIES: &str = "scratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n";

/// A run on so many processes; `None` without MPI.
fn of(mpi: &Mpi, job: &Job, processes: usize, commands: &str) -> Option<Run> {
    let run = mpi.start(processes)?.env(MARK, job.path(""));
    let run = run.arg(mpi_program(mpi.compiler, "../mpi/decompose.c"));
    Some(run.arg(job.path("veloc.cfg")).args(commands))
}

/// Runs that succeed, one after the other, and say nothing.
fn succeed(mpi: &Mpi, job: &Job, runs: &[(usize, &str)]) -> Option<()> {
    for (processes, commands) in runs {
        let ended = of(mpi, job, *processes, commands)?.succeed();
        assert_eq!(ended.complaints(), [""; 0], "{processes}: {commands}");
    }
    Some(())
}

/// Four processes, then six, three, one, and fifteen of which the last have nothing, each with another cut; and back.
/// Catches elements that come to another place, from another version or from another number's, and a region that is
/// alike and is not restored; in every form that a file may have.
#[test]
fn any_number_of_processes_goes_on() {
    let forms = [
        "mode = async\naggregated = true\n",
        "mode = sync\nincremental = true\n",
        "mode = async\nchksum = true\ncompress = zstd\n",
        "mode = sync\n",
        "mode = async\n",
        "mode = sync\naggregated = true\nchksum = true\n",
    ];
    for keys in cases(3, forms) {
        let job = Job::new(&format!("{keys}{DIRECTORIES}"));
        let mpi = every_mpi().next().unwrap();
        let runs = [
            (4, "cut=2,2,1 take=1 take=2 take=3 wait restore=3 restore=2"),
            (6, "cut=3,1,2 newest=3 restore=3 restore=1 parts=2 take=4 wait restore=4"),
            (3, "strip=3 newest=4 restore=4 restore=3 take=5 restore=5 wait"),
            (1, "cut=1,1,1 newest=5 restore=5 restore=1"),
            (15, "strip=12 newest=5 restore=5 restore=3"),
            (4, "cut=1,2,2 newest=5 restore=3 restore=4 cut=2,2,1 restore=3"),
        ];
        if succeed(mpi, &job, &runs).is_none() {
            return;
        }
    }
}

/// Catches a compressed block that is read as if it was not, and fewer dimensions that are counted from the wrong end.
#[test]
fn blocks_are_compressed_and_of_fewer_dimensions() {
    let job = Job::new(&format!("mode = async\n{DIRECTORIES}"));
    for mpi in every_mpi() {
        let runs = [
            (4, "cut=2,2,1 lossless=1 take=1 wait dimensions=2 cut=1,2,2 lossless=0 take=2 wait"),
            (3, "cut=3,1,1 lossless=1 restore=1 dimensions=2 cut=1,3,1 lossless=1 restore=2 take=3 wait"),
            (2, "dimensions=2 cut=1,1,2 restore=3 parts=2 dimensions=1 cut=1,1,2 take=4 wait"),
            (5, "dimensions=1 cut=1,1,5 newest=4 restore=4"),
        ];
        if succeed(mpi, &job, &runs).is_none() {
            return;
        }
    }
}

/// Catches a delta that is read as if it had everything, or whose bases are those of another rank.
#[test]
fn deltas_are_put_together() {
    for mpi in every_mpi() {
        let job = Job::new(&format!("mode = async\nincremental = true\n{DIRECTORIES}"));
        let take = "large cut=2,2,1 take=1 keep=1 take=2 take=3 wait restore=3 restore=2";
        if succeed(mpi, &job, &[(4, take)]).is_none() {
            return;
        }
        let len = |version| {
            let file = job.persistent().join(format!("cut-0-{version}.dat"));
            fs::metadata(file).unwrap().len()
        };
        assert!(len(3) < len(1) / 2, "{} and {}: no delta", len(3), len(1));
        let next = "large keep=1 cut=3,1,2 newest=3 restore=3 restore=2 restore=1 take=4 wait";
        succeed(mpi, &job, &[(6, next), (1, "large keep=1 cut=1,1,1 restore=4 restore=2")]);
    }
}

/// Catches files that another number of ranks does not find beside parities, and a lost one that keeps as many ranks as
/// before from rebuilding it, or that another number passes over without its name.
#[test]
fn files_with_parities_are_put_together() {
    for mpi in every_mpi() {
        let job = Job::new(&format!("mode = sync\nec_interval = 0\n{DIRECTORIES}"));
        let Some(run) = of(mpi, &job, 4, "cut=2,2,1 take=1 take=2 wait") else { return };
        run.succeed();
        succeed_with_errors(mpi, &job, 6, "cut=3,1,2 newest=2 restore=2 restore=1");
        for folder in [job.scratch(), job.persistent()] {
            fs::remove_file(folder.join("cut-2-2.dat")).unwrap();
        }
        let six = "cut=3,1,2 newest=1 restore=1 refuse=2:rank_2|no_file_of_checkpoint";
        succeed_with_errors(mpi, &job, 6, six);
        succeed_with_errors(mpi, &job, 4, "cut=2,2,1 newest=2 restore=2");
    }
}

/// Catches blocks of device memory that are written as if they were the host's, also where they are compressed, and a
/// cut of device memory that host memory of another number does not get, or the other way round.
#[test]
fn blocks_in_device_memory() {
    for mpi in every_mpi() {
        let job = Job::new(&format!("mode = async\n{DIRECTORIES}"));
        for (processes, commands) in [
            (4, "device cut=2,2,1 take=1 wait lossless=1 take=2 wait restore=2"),
            (3, "device strip=3 restore=1 restore=2 take=3 wait"),
            (2, "cut=1,2,1 restore=1 restore=2 restore=3"),
            (4, "device cut=1,2,2 restore=1 restore=3"),
        ] {
            let Some(run) = of(mpi, &job, processes, commands) else { return };
            let _ = run.with_device().succeed();
        }
    }
}

/// The processes of every run are killed. Catches a version that is restored before the backend has written what the
/// ranks had that the new job lacks, and an older version in its place.
#[test]
fn killed_jobs_go_on_with_another_number() {
    for mpi in every_mpi() {
        let job = Job::new(&format!("mode = async\n{DIRECTORIES}"));
        let Some(run) = of(mpi, &job, 6, "cut=3,1,2 take=1 take=2 kill=5") else { return };
        assert!(!run.end().status.success());
        let next = of(mpi, &job, 4, "cut=2,2,1 newest=2 restore=2 take=2 take=3 kill=0").unwrap();
        let ended = next.end();
        assert!(
            !ended.status.success() && !ended.stdout.contains("decompose.c"),
            "{}",
            ended.stdout
        );
        succeed(mpi, &job, &[(1, "cut=1,1,1 newest=3 restore=3 restore=2 restore=1")]);
        wait_for_backends(&job);
    }
}

/// Catches pieces that are restored though the array has gaps, or that come from two runs or from a damaged file, and
/// reasons without a name. No byte changes.
#[test]
fn what_is_not_whole_is_named_and_passed_over() {
    for mpi in every_mpi() {
        let job = Job::new(&format!("mode = sync\n{DIRECTORIES}"));
        let runs = [
            (4, "cut=2,2,1 take=1 cut=1,2,2 shift=1 take=2"),
            (4, "cut=2,2,1 short=2 take=3"),
            (4, "cut=2,2,1 unlike take=4"),
            (4, "cut=2,2,1 take=5 take=6 take=7 take=8"),
        ];
        if succeed(mpi, &job, &runs).is_none() {
            return;
        }
        let file = |rank, version| job.persistent().join(format!("cut-{rank}-{version}.dat"));
        fs::remove_file(file(3, 5)).unwrap();
        let mut bytes = fs::read(file(1, 6)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        // In place: a new file would have no proof.
        fs::File::options()
            .write(true)
            .open(file(1, 6))
            .and_then(|f| {
                use std::os::unix::fs::FileExt as _;
                f.write_all_at(&bytes, 0)
            })
            .unwrap();
        // Another run takes a version again, and its file of one rank gets among those of the first.
        let kept = job.path("kept");
        fs::rename(file(2, 7), &kept).unwrap();
        of(mpi, &job, 4, "cut=2,2,1 restore=1 take=7").unwrap().succeed();
        fs::rename(&kept, file(2, 7)).unwrap();
        fs::rename(file(2, 8), &kept).unwrap();

        let six = "cut=3,1,2 newest=1 restore=1 \
                   refuse=2:rank_0_has|and_rank_1_has|they_overlap \
                   refuse=3:no_rank_has_30_of_the_1680_elements \
                   refuse=4:region_2|not_alike_on_ranks_0_and_1 \
                   refuse=5:rank_3|no_file_of_checkpoint \
                   refuse=6:rank_1|cut-1-6.dat|its_proof_says \
                   refuse=7:rank_2|another_run_made_it \
                   refuse=8:rank_2|no_file_of_checkpoint \
                   refuse=9:no_checkpoint \
                   longer cut=3,1,2 refuse=1:12_x_10_x_14|13_x_10_x_14";
        let ended = of(mpi, &job, 6, six).unwrap().succeed();
        let passed = ended.stderr.matches("passing over version").count();
        assert_eq!(passed, 7, "{}", ended.stderr);
        // One process without MPI, which has all of the array, too.
        let alone = job.run("script", "size=13440 refuse=cut:1:is_a_part_of_an_array");
        alone.succeed();
        // Who does not say which part it wants is told to.
        let ended = of(mpi, &job, 2, "whole=1,2,1 refuse=1:").unwrap().succeed();
        assert!(ended.stderr.contains("if it says which parts it has"), "{}", ended.stderr);
    }
}

/// The same number of processes goes on with another cut. Catches a version of an older run that comes from persistent
/// while these processes have a newer one; blocks of the old cut that are restored where the new one was said too late;
/// a table of an open checkpoint that is wrong; files that are opened only when they are read; and, without proofs, files
/// of two runs.
#[test]
fn another_cut_of_the_same_number() {
    for mpi in every_mpi() {
        let keys = format!("mode = sync\n{DIRECTORIES}");
        let job = Job::new(&keys);
        let Some(run) = of(mpi, &job, 4, "cut=2,2,1 take=1 cut=1,2,2 restore=1 open=2") else {
            return;
        };
        run.succeed();
        succeed_with_errors(mpi, &job, 4, "cut=2,2,1 late=1:1,2,2 restore=1");
        // Another process that is ready may replace the files.
        let gone = format!("cut=3,1,1 gone=1:{}", job.persistent().display());
        succeed_with_errors(mpi, &job, 3, &gone);
        succeed_with_errors(mpi, &job, 4, "cut=2,2,1 restore=1 take=1");
        job.configure(&format!("{keys}persistent_interval = -1\n"));
        let newer = "cut=2,2,1 restore=1 salt=7 take=1 restore=1 cut=1,2,2 \
                     refuse=1:persistent_does_not_have_what_these_processes_have cut=2,2,1 restore=1";
        succeed_with_errors(mpi, &job, 4, newer);
        job.configure(&keys);
        succeed_with_errors(mpi, &job, 4, "salt=7 cut=2,2,1 restore=1");

        let file = job.persistent().join("cut-2-1.dat");
        fs::rename(&file, job.path("kept")).unwrap();
        succeed_with_errors(mpi, &job, 4, "salt=7 cut=2,2,1 restore=1 take=1");
        fs::rename(job.path("kept"), &file).unwrap();
        job.configure(&format!("{keys}proof = off\n"));
        let refused = "cut=2,1,1 refuse=1:rank_2|another_run_made_it_than_rank_0's";
        succeed_with_errors(mpi, &job, 2, refused);
    }
}

/// A run that succeeds, and says what was refused.
fn succeed_with_errors(mpi: &Mpi, job: &Job, processes: usize, commands: &str) {
    of(mpi, job, processes, commands).unwrap().succeed();
}

/// Processes of MPI killed by one of them.
fn killed(ended: &Ended) {
    assert!(!ended.status.success(), "{}{}", ended.stdout, ended.stderr);
}

/// The example: four processes in C, six in C++, three in Fortran, and one in Python where that has mpi4py; all but the
/// last are killed. Catches a cell that is not what an undisturbed run has, and an order of dimensions that one language
/// has otherwise.
#[test]
fn a_plate_in_every_language() {
    let mpi = &OPEN_MPI;
    let Some(first) = mpi.start(2) else { return };
    for compiler in ["mpicxx.openmpi", mpi.fortran] {
        if found(compiler).is_none() {
            println!("skipped: {compiler} is not installed");
            return;
        }
    }
    let configuration = format!("mode = async\n{DIRECTORIES}");
    let (job, undisturbed) = (Job::new(&configuration), Job::new(&configuration));
    let c = mpi_program(mpi.compiler, "../../examples/plate/plate.c");
    let start = |run: Run, job: &Job, program: &PathBuf| {
        let folder = job.path("");
        let run = run.with(|command| {
            command.current_dir(folder);
        });
        let run = run.env("LD_LIBRARY_PATH", staged().lib()).env(MARK, job.path(""));
        run.arg(program).arg(job.path("veloc.cfg"))
    };
    start(first, &undisturbed, &c).succeed();
    let whole = fs::read(undisturbed.path("plate.bin")).unwrap();

    let cxx = cxx::mpi_program("mpicxx.openmpi", "plate");
    let fortran = fortran_example(mpi.fortran, "plate", &[]);
    let on = |processes| mpi.start(processes).unwrap();
    killed(&start(on(4), &job, &c).env("PLATE_MISHAP", "3 55").end());
    let ended = start(on(6), &job, &cxx).env("PLATE_MISHAP", "0 95").end();
    killed(&ended);
    assert!(ended.stdout.contains("goes on at step 40"), "{}", ended.stdout);
    let ended = start(on(3), &job, &fortran).arg("130").succeed();
    assert!(ended.stdout.contains("goes on at step 80"), "{}", ended.stdout);
    let python = "/usr/bin/python3";
    let imports = Command::new(python).args(["-c", "import mpi4py, numpy"]).output();
    let ended = match imports.is_ok_and(|ended| ended.status.success()) {
        true => {
            let here = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            let run = on(1).env("PYTHONPATH", format!("{here}/python"));
            let run = run.env("VELOC_LIBRARY", staged().lib().join("libveloc-client.so"));
            let program = PathBuf::from(python);
            let folder = job.path("");
            let run = run.with(|command| {
                command.current_dir(folder);
            });
            let run = run
                .env(MARK, job.path(""))
                .arg(program)
                .arg(format!("{here}/examples/plate/plate.py"));
            run.arg(job.path("veloc.cfg")).succeed()
        }
        false => {
            println!("skipped: Python has no NumPy or no mpi4py");
            start(on(1), &job, &c).succeed()
        }
    };
    assert!(ended.stdout.contains("goes on at step 120"), "{}", ended.stdout);
    assert!(fs::read(job.path("plate.bin")).unwrap() == whole);
}
