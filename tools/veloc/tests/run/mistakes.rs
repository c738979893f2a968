//! Bad input, and what must not be done.

use std::os::unix::fs::PermissionsExt as _;

use xtask::files::write_program;

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
    let [init, program] = children(running.child.id())[..] else { panic!("not two children") };
    let mut supervisor = running.child;
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
    job.wait_for_lines("printed", (lines + 1).min(150));
    assert_eq!(job.checkpoint(), Ok(2));
    let names: Vec<String> = fs::read_dir(job.path("D"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("partial")), "{names:?}");
    running.succeed();
    job.check(&expected);
}

/// Catches a program that is started, or an image that is trusted, without the CRIU that it needs; and a program that a CRIU
/// takes along that ends in the middle.
#[test]
fn a_criu_that_does_not_work_is_named() {
    let Some(job) = Job::new() else { return };
    let script = |text: &str| {
        let path = job.path("criu.sh");
        write_program(&path, &format!("#!/bin/sh\n{text}\n")).unwrap();
        path
    };
    let said = |criu: &Path| {
        let words = "run --dir D ./steps 10 written";
        let ended = job.veloc(words).env("VELOC_CRIU", criu).output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8(ended.stderr).unwrap()
    };
    let text = said(Path::new("/no/criu"));
    assert!(text.contains("asking /no/criu for its version: No such file"), "{text}");
    let text = said(&script("echo Version: 3.17"));
    assert!(text.contains("criu.sh is CRIU 3.17, older than 4.1"), "{text}");
    let text = said(&script("echo hello"));
    assert!(text.contains("criu.sh does not tell its version"), "{text}");

    let criu = script("[ $1 = --version ] && echo Version: 4.1 && exit; kill -9 $$");
    let expected = job.expected(300);
    let mut command = job.veloc("run --dir D ./steps 300 written");
    command.env("VELOC_CRIU", criu).stdout(File::create(job.path("printed")).unwrap());
    let running = job.run(&mut command);
    job.wait_for_lines("printed", 2);
    let text = job.checkpoint().unwrap_err();
    assert!(text.contains("criu dump ended with signal: 9"), "{text}");
    running.succeed();
    job.check(&expected);
}

/// Catches a version that cannot be restarted from since a restart was killed that had made the program's file without a name
/// under one.
#[test]
fn what_a_killed_restart_left_is_not_in_the_way() {
    let Some(job) = Job::new() else { return };
    let expected = job.expected(300);
    let running = job.start("run --dir D ./steps 300 written", "printed");
    job.wait_for_lines("printed", 2);
    assert_eq!(job.checkpoint(), Ok(1));
    let program = children(running.child.id())[1];
    let mut open = fs::read_dir(format!("/proc/{program}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let unnamed =
        open.find_map(|path| Some(path.to_str()?.strip_suffix(" (deleted)")?.to_owned())).unwrap();
    running.kill();
    fs::write(format!("{unnamed}.cr.1.ghost"), "half of").unwrap();
    job.start("restart D", "other").succeed();
    job.check(&expected);
}

/// Catches a version of one process of an MPI program, whose messages a restart would not have.
#[test]
fn mpi_is_refused_by_name() {
    let Some(job) = Job::of("steps", |compile| {
        let folder = compile.get_current_dir().unwrap().to_owned();
        let mut library = Command::new("cc");
        library.args(["-shared", "-o", "libmpi.so.40", "-x", "c", "/dev/null"]);
        assert!(library.current_dir(&folder).status().unwrap().success());
        compile.args(["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "libmpi.so.40"]);
    }) else {
        return;
    };
    let expected = job.expected(100);
    let running = job.start("run --dir D ./steps 100 written", "printed");
    job.wait_for_lines("printed", 2);
    let said = job.checkpoint().unwrap_err();
    assert!(said.contains("process 1000 uses MPI (") && said.contains("/libmpi.so.40)"), "{said}");
    running.succeed();
    job.check(&expected);
}

/// Catches half a version, or a program that a full directory ends.
#[test]
fn a_full_directory_is_named() {
    let Some(job) = Job::new() else { return };
    let expected = job.expected(600);
    fs::create_dir(job.path("D")).unwrap();
    let mount = |words: &[&str]| {
        assert!(Command::new(words[0])
            .args(&words[1..])
            .arg(job.path("D"))
            .status()
            .unwrap()
            .success());
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=256k", "small"]);
    let running = job.start("run --dir D ./steps 600 written", "printed");
    job.wait_for_lines("printed", 2);
    let said = job.checkpoint();
    let names: Vec<_> =
        fs::read_dir(job.path("D")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    running.succeed();
    mount(&["umount", "-l"]);
    let said = said.unwrap_err();
    assert!(said.contains("No space left on device") && said.contains("/D/1.partial/"), "{said}");
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with('1')), "{names:?}");
    job.check(&expected);
}

/// Catches an image that goes on in another program than its own.
#[test]
fn another_program_is_refused_by_name() {
    let Some(job) = Job::new() else { return };
    let running = job.start("run --dir D ./steps 600 written", "printed");
    job.wait_for_lines("printed", 2);
    assert_eq!(job.checkpoint(), Ok(1));
    running.kill();
    let mut program = fs::read(job.path("steps")).unwrap();
    program.extend_from_slice(b"changed");
    fs::remove_file(job.path("steps")).unwrap();
    fs::write(job.path("steps"), program).unwrap();
    fs::set_permissions(job.path("steps"), fs::Permissions::from_mode(0o755)).unwrap();
    let said = refused(&job, "restart D");
    assert!(said.contains("steps") && said.contains("size"), "{said}");
}
