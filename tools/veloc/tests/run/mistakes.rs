//! Bad input, and what must not be done.

use super::*;

/// What `veloc` with these words says, which must fail.
fn refused(job: &Job, words: &str) -> String {
    let ended = job.veloc(words).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{words}");
    String::from_utf8(ended.stderr).unwrap()
}

/// Catches versions that are overwritten by another run, two runs of one program, and a program that a killed supervisor takes
/// along.
#[test]
fn a_program_runs_once() {
    let Some(job) = Job::new() else { return };
    for words in ["checkpoint D", "restart D", "run --dir D ./nothing"] {
        let said = refused(&job, words);
        assert!(
            said.contains("directory D")
                || said.contains("D has no version")
                || said.contains("./nothing"),
            "{said}"
        );
    }
    // A name that a folder has as well is no job.
    fs::create_dir(job.path("shot")).unwrap();
    assert!(job.veloc("ls shot").output().unwrap().status.success());
    let running = job.start("run --dir D ./steps 1000000 written", "printed");
    job.wait_for_lines("printed", 1);
    assert_eq!(job.checkpoint(), Ok(1));
    for words in ["run --dir D ./steps 10 other", "restart D"] {
        let said = refused(&job, words);
        assert!(
            said.contains("still runs") || said.contains("versions of an earlier run"),
            "{said}"
        );
    }
    // The supervisor alone: the program goes on.
    let [init, program] = children(running.0.id())[..] else { panic!("not two children") };
    let mut supervisor = running.0;
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let lines = job.text("printed").lines().count();
    job.wait_for_lines("printed", lines + 2);
    let said = refused(&job, "restart D");
    assert!(said.contains("still runs, though its supervisor has ended"), "{said}");
    let said = refused(&job, "checkpoint D");
    assert!(said.contains("its supervisor has ended"), "{said}");
    kill(program, libc::SIGKILL);
    // Its first process ends as soon as the program has.
    until("the end of the name space", || !Path::new(&format!("/proc/{init}")).exists());
    let said = refused(&job, "run --dir D ./steps 10 other");
    assert!(
        said.contains("versions of an earlier run, up to 1") && said.contains("veloc restart"),
        "{said}"
    );
    job.start("restart D", "other").kill();
}

/// Catches damaged versions that are restarted from, and good ones that are not.
#[test]
fn damaged_versions_are_found() {
    let Some(job) = Job::new() else { return };
    let steps = 600;
    let expected = job.expected(steps);
    let running = job.start(&format!("run --dir D --keep 3 ./steps {steps} written"), "printed");
    for version in 1..=3 {
        job.wait_for_lines("printed", version as usize);
        assert_eq!(job.checkpoint(), Ok(version));
    }
    running.kill();
    let listed = |words: &str| {
        String::from_utf8(job.veloc(words).stdout(Stdio::piped()).output().unwrap().stdout).unwrap()
    };
    let text = listed("ls D");
    assert!(
        text.contains("does not run") && text.contains(&format!("./steps {steps} written")),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&listed("ls D --json")).unwrap();
    assert_eq!(json["versions"][0]["version"], 3);
    let pages = job.path("D/3/images/pages-1.img");
    let mut bytes = fs::read(&pages).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pages, &bytes).unwrap();
    let list = job.path("D/2/images/files.img");
    let len = fs::metadata(&list).unwrap().len();
    File::options().write(true).open(&list).unwrap().set_len(len - 1).unwrap();
    let said = refused(&job, "restart D --version 3");
    assert!(said.contains("pages-1.img is not what was written"), "{said}");
    let said = refused(&job, "restart D --version 2");
    assert!(said.contains("files.img has"), "{said}");
    let said = refused(&job, "restart D --version 7");
    assert!(said.contains("has no version 7"), "{said}");
    let said = job.start("restart D", "other").succeed();
    assert!(
        said.contains("version 3 is not restarted from") && said.contains("version 2 is not"),
        "{said}"
    );
    job.check(&expected);
}

/// Catches a program that is left stopped, or half a version, where a version cannot be made.
#[test]
fn a_version_that_fails_leaves_the_program_running() {
    let Some(job) = Job::new() else { return };
    let expected = job.expected(1500);
    let running = job.start("run --dir D ./steps 1500 written", "printed");
    job.wait_for_lines("printed", 1);
    // Something that is no directory where the version is to be.
    fs::write(job.path("D/1"), "in the way").unwrap();
    let said = job.checkpoint().unwrap_err();
    assert!(said.contains("/1"), "{said}");
    fs::remove_file(job.path("D/1")).unwrap();
    let lines = job.text("printed").lines().count();
    job.wait_for_lines("printed", lines + 1);
    assert_eq!(job.checkpoint(), Ok(2));
    let names: Vec<String> = fs::read_dir(job.path("D"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("partial")), "{names:?}");
    running.succeed();
    job.check(&expected);
}
