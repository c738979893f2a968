//! What a program does, or others do to it, while versions of it are made.

use super::*;

/// Catches timers, pending signals and children that a version lacks, and a program that is left stopped by a version that
/// could not be made while its processes came and went.
#[test]
fn timers_signals_and_children_go_on() {
    let Some(job) = Job::of("meanwhile", |_| {}) else { return };
    let steps = 300;
    let expected = job.expected(steps);
    let mut running = job.start(&format!("run --dir D ./meanwhile {steps} written"), "printed");
    for _ in 0..2 {
        let lines = job.text("printed").lines().count();
        running.wait_for_lines(&job, (lines + 5).min(steps as usize));
        // A process that ends while CRIU looks at it can have a version fail, but not each.
        let made = (0..20).find_map(|_| job.checkpoint().map_err(|said| println!("{said}")).ok());
        assert!(made.is_some());
        running.kill();
        running = job.start("restart D", "other");
    }
    running.succeed();
    job.check(&expected);
}

/// Catches a program that goes on where a user has stopped it, and one that does not where the user has it.
#[test]
fn a_stopped_program_stays_stopped() {
    let Some(job) = Job::new() else { return };
    let expected = job.expected(600);
    let running = job.start("run --dir D ./steps 600 written", "printed");
    job.wait_for_lines("printed", 2);
    let program = children(running.child.id())[1];
    let is_stopped = || {
        let status = fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        status.contains("State:\tT")
    };
    kill(program, libc::SIGSTOP);
    until("the program is stopped", is_stopped);
    assert_eq!(job.checkpoint(), Ok(1));
    assert!(is_stopped());
    kill(program, libc::SIGCONT);
    running.succeed();
    job.check(&expected);
}

/// Catches a question that is answered before its version is there, or never.
#[test]
fn two_that_ask_at_once_get_versions() {
    let Some(job) = Job::new() else { return };
    let expected = job.expected(900);
    let running = job.start("run --dir D --keep 9 ./steps 900 written", "printed");
    job.wait_for_lines("printed", 1);
    let numbers: Vec<u32> = thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| job.checkpoint().unwrap())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    for number in numbers {
        assert!(job.path(&format!("D/{number}/version.json")).is_file());
    }
    running.succeed();
    job.check(&expected);
}

/// Catches a program that ends, and is taken for one that cannot be written; and whoever asks then, and waits for ever.
#[test]
fn a_program_that_ends_meanwhile_has_ended_well() {
    let Some(job) = Job::new() else { return };
    for _ in 0..5 {
        let running = job.start("run --dir D ./steps 20 written", "printed");
        fs::remove_file(&running.held).unwrap();
        job.wait_for_lines("printed", 1);
        thread::sleep(Duration::from_millis(random(60)));
        println!("{:?}", job.checkpoint());
        running.succeed();
        fs::remove_dir_all(job.path("D")).unwrap();
        fs::remove_file(job.path("printed")).unwrap();
    }
}
