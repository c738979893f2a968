//! What a program has from outside: descriptors, signals, its exit code.

use super::*;

/// Catches exit codes and signals that do not get through, in either direction.
#[test]
fn it_ends_as_the_program_does() {
    let Some(job) = Job::new() else { return };
    let ended = |words: &str| {
        let _ = fs::remove_dir_all(job.path("D"));
        job.start(&format!("run --dir D {words}"), "printed").end().0
    };
    assert_eq!(ended("true").code(), Some(0));
    assert_eq!(ended("sh -c false").code(), Some(1));
    fs::write(job.path("code.sh"), "exit 77\n").unwrap();
    assert_eq!(ended("sh code.sh").code(), Some(77));
    fs::write(job.path("signal.sh"), "kill -SEGV $$\n").unwrap();
    assert!(is_by_signal(ended("sh signal.sh"), libc::SIGSEGV));

    fs::write(
        job.path("trap.sh"),
        "trap 'echo caught; exit 3' USR1\necho ready\nwhile :; do sleep 0.01; done\n",
    )
    .unwrap();
    fs::remove_dir_all(job.path("D")).unwrap();
    let running = job.start("run --dir D sh trap.sh", "trapped");
    job.wait_for_lines("trapped", 1);
    kill(running.child.id(), libc::SIGUSR1);
    assert_eq!(running.end().0.code(), Some(3));
    assert_eq!(job.text("trapped"), "ready\ncaught\n");
}

/// Catches output that overwrites other output: of one file under two numbers, and of the shell behind the program.
#[test]
fn files_from_outside_are_written_as_without() {
    let Some(job) = Job::new() else { return };
    fs::write(job.path("both.sh"), "echo one; echo two >&2; echo three\n").unwrap();
    let script =
        format!("echo before; {} run --dir D sh both.sh; echo behind", env!("CARGO_BIN_EXE_veloc"));
    let shell_run = |output: Stdio, errors: Stdio| {
        let _ = fs::remove_dir_all(job.path("D"));
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&script)
            .current_dir(&job.folder)
            .env("VELOC_CRIU", CRIU.as_ref().unwrap());
        command.stdin(Stdio::null()).stdout(output).stderr(errors).status().unwrap()
    };
    let file = File::create(job.path("both")).unwrap();
    assert!(shell_run(file.try_clone().unwrap().into(), file.into()).success());
    assert_eq!(job.text("both"), "before\none\ntwo\nthree\nbehind\n");
}

/// Catches input or output through pipes that is lost at a restart.
#[test]
fn pipes_are_those_of_whoever_restarts() {
    let Some(job) = Job::new() else { return };
    let mut command = job.veloc("run --dir D ./steps 400 written");
    let mut first = job.run(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    job.wait_for_lines("written", 1);
    assert_eq!(job.checkpoint(), Ok(1));
    let mut printed = first.child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut printed, &mut text).unwrap();
        text
    });
    fs::remove_file(&first.held).unwrap();
    first.kill();
    let before = reader.join().unwrap();
    let second =
        job.veloc("restart D").stdin(Stdio::piped()).stdout(Stdio::piped()).output().unwrap();
    let after = String::from_utf8(second.stdout).unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let (expected, written) = job.expected(400);
    assert!(job.text("written") == written);
    // What came before the kill may come once more.
    assert!(expected.starts_with(&before) && expected.ends_with(&after));
    assert!(before.len() + after.len() >= expected.len());
}
