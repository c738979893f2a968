//! File-based checkpoints (`VELOC_Route_file`) of programs that misuse them, and in directories
//! that were lost or are full.

use std::fs;

use capi_tests::job::{names, Job};
use capi_tests::program::{fortran_program, found, hdf5, program_with};
use capi_tests::run::Run;

use crate::failing::{on_each, script, shell};

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                     meta = DIR/meta\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                    meta = DIR/meta\n";

/// Catches a file of the application's that is replaced by the empty file that waited for its
/// bytes, and one of two files that is lost without a message.
#[test]
fn what_nobody_has_written_replaces_nothing() {
    for configuration in [ASYNC, SYNC, "mode = async\nscratch = DIR/scratch\n"] {
        let job = Job::new(configuration);
        job.run("script", "ignore=x:1:DIR/own newest=x:-1 wait").succeed();
        assert!(names(&job.scratch()).is_empty(), "{:?}", names(&job.scratch()));
        job.run("script", "route=x:1:DIR/own wait ignore=x:2:DIR/own newest=x:1").succeed();
    }
}

/// Scratch is lost: the file comes back without a false warning, and stays a file-based checkpoint
/// when the application's own file is gone as well.
#[test]
fn a_file_that_came_back_is_still_one() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(configuration);
        job.run("script", "route=x:1:DIR/own").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        // Without a backend, about which a slow machine would print a warning.
        let back =
            || job.run("script", "newest=x:1 reroute=x:1:DIR/own").env("VELOC_THREADED", "true");
        assert_eq!(back().succeed().stderr, "");
        assert_eq!(names(&job.scratch()), [".x-0-1.dat.routed", "x-0-1.dat"]);
        fs::remove_file(job.path("own")).unwrap();
        assert_eq!(back().succeed().stderr, "");
    }
}

/// Catches a search that reports a file as there, and leaves its checksum to the restart.
#[test]
fn a_changed_file_is_found_by_the_search() {
    for configuration in [ASYNC, SYNC] {
        let job = Job::new(&format!("{configuration}chksum = true\n"));
        job.run("script", "route=x:1:DIR/own.1 route=x:2:DIR/own.2").succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        let mut bytes = fs::read(job.path("own.2")).unwrap();
        bytes[7] ^= 1;
        fs::write(job.path("own.2"), bytes).unwrap();
        let ended = job.run("script", "newest=x:1 reroute=x:1:DIR/own.1").succeed();
        let said = ended.stderr.matches("its SHA-256 is not the one in").count();
        assert_eq!(said, 1, "{}", ended.stderr);
    }
}

/// Scratch has room for names, and next to none for bytes. Catches a path in scratch, where the
/// application's own write fails; a warning for each file; limits, a clean-up and a restart that
/// ignore the new files beside those that they replace.
#[test]
fn a_full_scratch_is_no_place_for_files_of_the_application() {
    for configuration in [ASYNC, SYNC] {
        let configuration = format!("{configuration}chksum = true\nmax_versions = 3\n");
        on_each(&configuration, "scratch", |job, ground| {
            let own = |version: i32| job.path(&format!("own.{version}")).display().to_string();
            let route = |version: i32| format!("route=x:{version}:{}", own(version));
            let back = |version: i32| format!("reroute=x:{version}:{}", own(version));
            let commands = [
                format!("size=1000000 {} wait", route(1)),
                // Leaves half the room of the last file: a block can still be written.
                shell(ground.to_fill(2_700_000)),
                format!("{} wait newest=x:2 {} {}", route(2), back(2), back(1)),
                // Leaves not even a block for the first file of a name.
                shell(ground.to_empty()),
                shell(ground.to_fill(3_180_000)),
                format!("size=5000 route=y:1:{} wait size=1000000", own(9)),
                format!("{} wait {} wait", route(3), route(4)),
                format!("cleanup=x newest=x:4 {} {} newest=x:-1:1", back(4), back(2)),
                shell(ground.to_empty()),
                format!("{} drain newest=x:5 {} {}", route(5), back(5), back(4)),
                // A new job learns from the existing files how large they were.
                shell(format!("rm {}/*", job.scratch().display())),
                shell(ground.to_fill(3_300_000)),
                format!("drain {} wait newest=x:5 {}", route(5), back(5)),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            let said = &ended.stderr;
            // Once by the first job and once by the last one.
            assert_eq!(said.matches("written to persistent alone").count(), 2, "{said}");
            let scratch = job.scratch().display().to_string();
            assert!(said.contains(&scratch), "{said}");
            let links = ["x-0-3.dat", "x-0-4.dat", "x-0-5.dat", "y-0-1.dat"];
            assert_eq!(names(&job.persistent()), links);
            assert!(!names(&job.path("")).iter().any(|name| name.contains(".tmp-")));
        });
    }
}

/// How large a file will be is a guess. Catches a guess that refuses a file that has room, where no
/// other directory may take it, and a file without room that is not refused.
#[test]
fn a_guess_refuses_no_file() {
    for configuration in [ASYNC, SYNC] {
        let configuration = format!("{configuration}persistent_interval = -1\n");
        on_each(&configuration, "scratch", |job, ground| {
            let own = job.path("own").display().to_string();
            let commands = [
                format!("size=1000000 route=x:1:{own} wait"),
                shell(ground.to_fill(2_700_000)),
                format!("size=200000 route=x:2:{own} wait newest=x:2 reroute=x:2:{own}"),
                shell(ground.to_empty()),
                shell(ground.to_fill(2_950_000)),
                "noroute=x:3:No_space_left|interval_=_0 newest=x:2".into(),
                shell(format!("test \"$(ls -A {0} | grep -c tmp-)\" = 0", job.scratch().display())),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            assert!(!ended.stderr.contains("alone"), "{}", ended.stderr);
        });
    }
}

/// Scratch is to keep one file, and has room for some. Catches files that limits of versions leave
/// there, so that a later file has no room.
#[test]
fn room_of_files_of_the_application_is_used_again() {
    for configuration in [ASYNC, SYNC] {
        let configuration = format!("{configuration}scratch_versions = 1\n");
        on_each(&configuration, "scratch", |job, ground| {
            let own = job.path("own").display().to_string();
            let routes: String = (1..=12).map(|v| format!(" route=x:{v}:{own} wait")).collect();
            let commands = [
                format!("size=1000000{routes} newest=x:12 reroute=x:12:{own}"),
                shell(format!("test \"$(ls {})\" = x-0-12.dat", job.scratch().display())),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            assert!(!ended.stderr.contains("alone"), "{}", ended.stderr);
        });
    }
}

/// Catches a file that is there, or locked, before the application makes it, and a folder that stays.
#[test]
fn libraries_make_and_lock_their_files() {
    let Some(flags) = hdf5() else { return };
    let mut programs = vec![program_with("hdf5", &flags)];
    if found("gfortran").is_some() {
        let mut more = vec!["-Wl,--no-as-needed", "-lhdf5_fortran"];
        more.extend(flags.iter().map(String::as_str));
        programs.push(fortran_program("gfortran", &more, &["checks", "hdf5"], &["veloc"]));
    }
    for program in programs {
        for configuration in [ASYNC, SYNC] {
            let job = Job::new(configuration);
            let _ = Run::new(&program).arg(job.path("veloc.cfg")).arg(job.path("u.h5")).succeed();
            for folder in [job.scratch(), job.persistent(), job.path("")] {
                assert!(!names(&folder).iter().any(|name| name.contains(".tmp-")));
            }
        }
    }
}
