//! Regions of the lowest id, by which checkpoints of adjoint computations are not recognised.

use std::fs;

use capi_tests::backends::wait_for_backends;
use capi_tests::checkpoint_file::{content, encode, parse};
use capi_tests::job::{files, names, Job};

const LOWEST: i32 = i32::MIN;
const LIMITS: &str = "scratch = DIR/scratch\npersistent = DIR/persistent\n\
                      scratch_versions = 2\nmax_versions = 3\n";

fn of_x(versions: &[i32]) -> Vec<String> {
    versions.iter().map(|version| format!("x-0-{version}.dat")).collect()
}

/// Regions that a version does not have are named, once, and keep their memory. Catches a restart
/// that ignores them without a message.
#[test]
fn regions_that_a_version_lacks() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\n");
    let ended = job.run("script", "take=x:1 alias=2 restore=x:1 restore=x:1 take=x:2 restore=x:2");
    let said = ended.succeed().stderr;
    let words = "\"x\" version 1 does not have the protected regions 2, 3";
    assert_eq!(said.matches(words).count(), 1, "{said}");
    assert!(!said.contains("version 2 does not"), "{said}");
}

/// A program that protects the lowest id, and nothing else, is a program like any other: it is
/// restored after a kill, also from a file of VELOC's, and limits apply to its checkpoints. Catches
/// an id that is refused, and checkpoints that are taken for the library's own, which all stay.
#[test]
fn of_an_application() {
    for mode in ["sync", "async"] {
        let job = Job::new(&format!("mode = {mode}\n{LIMITS}"));
        let script =
            |commands: &str| job.run("script", &format!("size=5000 id={LOWEST} {commands}"));
        fs::create_dir_all(job.scratch()).unwrap();
        let before = encode(&[(LOWEST, content(1, 1, 5000))]);
        fs::write(job.scratch().join("x-0-1.dat"), before).unwrap();
        let killed = script("newest=x:1 restore=x:1 take=x:2 take=x:3 take=x:4 take=x:5 wait kill");
        let _ = killed.end();
        wait_for_backends(&job);
        // Version 1 is in scratch alone, and the job that finds it there does not remove it.
        assert_eq!(names(&job.scratch()), of_x(&[1, 4, 5]), "{mode}");
        assert_eq!(names(&job.persistent()), of_x(&[3, 4, 5]), "{mode}");
        script("newest=x:5 restore=x:5 restore=x:3 take=x:6").succeed();
        assert_eq!(names(&job.scratch()), of_x(&[5, 6]), "{mode}");
        assert_eq!(names(&job.persistent()), of_x(&[4, 5, 6]), "{mode}");
        let written = parse(&fs::read(job.scratch().join("x-0-6.dat")).unwrap());
        assert_eq!(written, Ok(vec![(LOWEST, content(1, 6, 5000))]));
    }
}

/// The states of a run, beside checkpoints of an application's own, all under limits: the states
/// stay, the others do not, whatever ids the regions of either have. Catches a region of the
/// application's that replaces the description of a state, and limits on a restarted run.
#[test]
fn of_a_run_and_beside_it() {
    for mode in ["sync", "async"] {
        for id in [5, LOWEST] {
            let job = Job::new(&format!("mode = {mode}\n{LIMITS}"));
            let script = |commands: &str| job.run("script", &format!("id={LOWEST} {commands}"));
            let states = || {
                let files = files(&job.persistent()).into_iter();
                files.filter(|(name, _)| name.starts_with("sweep-0-")).collect::<Vec<_>>()
            };
            for fail in [110, 40] {
                let run = format!("id={id} bytes=100 fail={fail} expect=returned_-1");
                job.run("sweep", &run).succeed();
                assert!(states().len() > 3, "{mode}, {id}: {:?}", names(&job.persistent()));
                let _ = script("take=x:1 take=x:2 take=x:3 take=x:4 wait kill").end();
                wait_for_backends(&job);
                assert!(states().len() > 3, "{mode}, {id}: {:?}", names(&job.persistent()));
                let own = names(&job.persistent()).into_iter().filter(|name| name.starts_with('x'));
                assert_eq!(own.collect::<Vec<_>>(), of_x(&[2, 3, 4]), "{mode}, {id}");
            }
            for (name, bytes) in states() {
                let regions = parse(&bytes).unwrap();
                let mark = if id == LOWEST { i32::MAX } else { LOWEST };
                let (_, bytes) = regions.iter().find(|(id, _)| *id == mark).unwrap();
                // The layout of earlier versions of the library, where they can have such a region.
                assert!(bytes.len() == 80 && bytes.starts_with(b"VELOCad2"), "{name}");
                assert!(regions.iter().any(|(found, bytes)| *found == id && bytes.len() == 116));
            }
            // With another set of ids the computation is another one.
            let other = if id == LOWEST { 5 } else { LOWEST };
            let refused = format!("id={other} bytes=100 expect=left_as_it_is|no_region_{other}");
            job.run("sweep", &refused).succeed();
            let ended = job.run("sweep", &format!("id={id} bytes=100")).succeed();
            assert!(ended.figure("began") > 0, "{}", ended.stdout);
            assert_eq!(states().len(), 0);
            script("restore=x:4 restore=x:2").succeed();
        }
    }
}

/// A checkpoint of the application under the name of a run, with a region of the lowest id and of
/// the length that a run's has. Catches a checkpoint that is taken for a damaged state, and
/// overwritten.
#[test]
fn an_application_under_the_name_of_a_run() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("script", &format!("size=80 id={LOWEST} take=sweep:0")).succeed();
    let before = files(&job.scratch());
    job.run("sweep", "expect=version_0|application's_own|left_as_it_is").succeed();
    assert!(before == files(&job.scratch()));
    job.run("script", &format!("size=80 id={LOWEST} restore=sweep:0")).succeed();
}

/// A state whose description has a flipped bit is damaged: the run goes on without it. Catches a
/// state that counts as the application's, so that the run is refused for ever.
#[test]
fn a_damaged_state_is_none_of_an_application() {
    for at in [0, 7, 8, 75] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        job.run("sweep", "fail=110 expect=returned_-1").succeed();
        let path = job.scratch().join("sweep-0-1.dat");
        let mut bytes = fs::read(&path).unwrap();
        // Flips a bit behind the count and the two regions of the header.
        bytes[8 + 2 * 12 + at] ^= 4;
        fs::write(&path, bytes).unwrap();
        let ended = job.run("sweep", "").succeed();
        assert!(ended.stderr.contains("going on without \"sweep\" version 1"), "{}", ended.stderr);
    }
}
