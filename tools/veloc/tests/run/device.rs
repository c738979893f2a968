//! Programs that use a GPU: what the driver refuses, and what goes wrong while a program is parked.

use super::*;

/// Has the program of a job run, with this in its supervisor's environment; failures are not for the program.
fn start(job: &Job, environment: (&str, &str), words: &str) -> Running {
    let output = File::create(job.path("printed")).unwrap();
    let mut command = job.veloc(&format!("run --dir D env -u SOFTCUDA_FAIL ./device {words}"));
    command.env(environment.0, environment.1).stdout(output);
    let mut running = job.run(&mut command);
    running.wait_for_lines(job, 2);
    running
}

/// Catches a call whose failure is not told, and a program that is left locked or parked by one.
#[test]
fn a_driver_that_refuses_leaves_the_program_running() {
    let Some(job) = Job::on_device() else { return };
    let expected = job.expected(200);
    let functions = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuCheckpointProcessGetState",
        "cuCheckpointProcessLock",
        "cuCheckpointProcessCheckpoint",
    ];
    for function in functions {
        let running = start(&job, ("SOFTCUDA_FAIL", &format!("{function}:1+=999")), "200 written");
        let said = job.checkpoint().unwrap_err();
        assert!(said.contains(&format!("{function}: CUDA_ERROR_UNKNOWN (999)")), "{said}");
        running.succeed();
        job.check(&expected);
        fs::remove_dir_all(job.path("D")).unwrap();
    }
}

/// Catches a version that is lost with a program that its driver does not have go on, and such a one that nobody is told of.
#[test]
fn a_program_that_the_driver_keeps_goes_on_from_its_version() {
    let Some(job) = Job::on_device() else { return };
    let expected = job.expected(200);
    for function in ["cuCheckpointProcessRestore", "cuCheckpointProcessUnlock"] {
        let fail = format!("{function}:1+=2");
        let running = start(&job, ("SOFTCUDA_FAIL", &fail), "200 written");
        assert_eq!(job.checkpoint(), Ok(1));
        let lines = job.text("printed").lines().count();
        let said = job.checkpoint().unwrap_err();
        assert!(said.contains("the driver has the program stand still"), "{said}");
        assert_eq!(job.text("printed").lines().count(), lines);
        running.kill();
        let ended = job.veloc("restart D").env("SOFTCUDA_FAIL", &fail).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{function}: CUDA_ERROR_OUT_OF_MEMORY (2)")), "{said}");
        job.start("restart D", "other").succeed();
        job.check(&expected);
        fs::remove_dir_all(job.path("D")).unwrap();
    }
}

/// Catches a program that is left parked where the process is killed that has parked it, or the supervisor.
#[test]
fn whoever_is_killed_meanwhile_the_program_goes_on() {
    let Some(job) = Job::on_device() else { return };
    let expected = job.expected(1000);
    let slow = "cuCheckpointProcessCheckpoint=100000,cuCheckpointProcessRestore=100000";
    let running = start(&job, ("SOFTCUDA_DELAY", slow), "1000 written");
    let supervisor = running.child.id();
    let during = |kill_it: &dyn Fn(u32)| {
        thread::scope(|scope| {
            let asked = scope.spawn(|| job.checkpoint());
            let mut helper = None;
            until("a process that stops the program", || {
                helper = children(supervisor).get(2).copied();
                helper.is_some()
            });
            thread::sleep(Duration::from_millis(random(250)));
            kill_it(helper.unwrap());
            asked.join().unwrap()
        })
    };
    for _ in 0..3 {
        let said = during(&|helper| kill(helper, libc::SIGKILL));
        println!("{said:?}");
        let lines = job.text("printed").lines().count();
        job.wait_for_lines("printed", (lines + 1).min(100));
        // It refuses until the driver was asked once more, by a process of its own.
        until("a version after that", || job.checkpoint().is_ok());
    }
    during(&|_| kill(supervisor, libc::SIGKILL)).unwrap_err();
    let _ = running.end();
    job.wait_for_lines("printed", 101);
    job.check(&expected);
}

/// Catches a program that goes on with other cards than it knows.
#[test]
fn other_cards_are_refused_by_name() {
    let Some(job) = Job::on_device() else { return };
    let expected = job.expected(200);
    let running = start(&job, ("LANG", "C"), "200 written");
    assert_eq!(job.checkpoint(), Ok(1));
    running.kill();
    let ended = job.veloc("restart D").env("SOFTCUDA_DEVICES", "2").output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let card = "softcuda (software stand-in, not a GPU)";
    let wanted = format!("the program had the cards {card}, but this node has {card}, {card}");
    assert!(ended.status.code() == Some(1) && said.contains(&wanted), "{said}");
    job.start("restart D", "other").succeed();
    job.check(&expected);
}

/// Catches managed memory that is lost in silence.
#[test]
fn managed_memory_is_refused_by_name() {
    let Some(job) = Job::on_device() else { return };
    let expected = job.expected(200);
    let running = start(&job, ("LANG", "C"), "200 written managed");
    let said = job.checkpoint().unwrap_err();
    assert!(said.contains("process 1000: cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED (801); it does not checkpoint managed memory"), "{said}");
    running.succeed();
    job.check(&expected);
}
