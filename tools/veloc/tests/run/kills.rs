//! Kills at random moments.

use super::*;

/// How many kills: VELOC_RUN_KILLS, or 20 with all tests, or 2.
fn kills() -> usize {
    match std::env::var("VELOC_RUN_KILLS") {
        Ok(given) => given.parse().unwrap(),
        Err(_) if std::env::var_os("VELOC_TEST_ALL").is_some() => 20,
        Err(_) => 2,
    }
}

/// Catches an image that lacks something of a process, output that is there twice or not at all, and numbers of processes that
/// differ.
#[test]
fn what_is_killed_goes_on_from_its_last_version() {
    Job::new().inspect(storm);
}

/// The same with memory of a device. Catches a program that is written while it has some of a device, and one that gets
/// its devices back too early, too late or not at all.
#[test]
fn so_does_what_uses_a_device() {
    Job::on_device().inspect(storm);
}

fn storm(job: &Job) {
    let kills = kills();
    let steps = 150 * (kills as u32 + 1);
    let expected = job.expected(steps);
    let mut running =
        job.start(&format!("run --dir D ./{} {steps} written", job.program), "printed");
    for kill in 0..kills {
        let lines = job.text("printed").lines().count();
        running.wait_for_lines(job, (lines + 2).min(steps as usize / 10));
        let version = job.checkpoint().unwrap();
        thread::sleep(Duration::from_millis(random(200)));
        running.kill();
        println!("kill {kill}: version {version}, {lines} lines");
        running = job.start("restart D", "other");
    }
    running.succeed();
    job.check(&expected);
    assert_eq!(job.text("other"), "");
}
