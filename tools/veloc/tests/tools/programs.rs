//! `veloc backend`, `veloc rtm` and `veloc bench`, completions and man pages.

use std::fs;
use std::process::Command;

use xtask::files::{copy_program, write_program};

use crate::files::Job;

/// Catches arguments that are taken for the program's own, and an exit code that is lost.
#[test]
fn the_backend_takes_over() {
    let job = Job::new();
    let text = "#!/bin/sh\necho \"$@\"\nexit 7\n";
    write_program(&job.path("veloc-backend"), text).unwrap();
    let run = |folder: &str| {
        Command::new(env!("CARGO_BIN_EXE_veloc"))
            .args(["backend", "veloc.cfg", "--foreground", "--help", "-h"])
            .env("VELOC_BIN", job.path(folder))
            .output()
            .unwrap()
    };
    let ended = run(".");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "veloc.cfg --foreground --help -h\n");
    assert_eq!(ended.status.code(), Some(7));
    let ended = run("none");
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains("none/veloc-backend") && text.lines().count() == 1, "{text}");
}

/// Catches a program of the current directory that is run, as `veloc` was found by PATH, or as a directory of PATH is
/// relative.
#[test]
fn programs_of_the_current_directory_are_not_run() {
    let job = Job::new();
    let there = job.path("a/b");
    let alone = job.path("c/d/alone");
    for folder in ["a/b", "a/bin", "bin", "c/d/alone"] {
        fs::create_dir_all(job.path(folder)).unwrap();
    }
    let mark = job.path("was-run");
    for folder in ["a/b", "a/bin", "bin"] {
        let text = format!("#!/bin/sh\ntouch {}\n", mark.display());
        write_program(&job.path(folder).join("veloc-backend"), &text).unwrap();
    }
    copy_program(env!("CARGO_BIN_EXE_veloc").as_ref(), &alone.join("veloc")).unwrap();
    let path = format!(".:{}::../bin", alone.display());
    for command in ["doctor", "backend none.cfg"] {
        let mut run = Command::new("veloc");
        run.args(command.split(' ')).current_dir(&there).env_remove("VELOC_BIN");
        let ended = run.env("PATH", &path).output().unwrap();
        assert!(!mark.exists(), "{command}: {}", String::from_utf8_lossy(&ended.stdout));
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains(&format!("there is no veloc-backend in {}", alone.display())),
            "{said}"
        );
    }
}

/// Catches arguments that are lost, and a program that is looked for elsewhere: each runs the one beside `veloc`.
#[test]
fn programs_beside_it_take_over() {
    let job = Job::new();
    fs::create_dir(job.path("bin")).unwrap();
    copy_program(env!("CARGO_BIN_EXE_veloc").as_ref(), &job.path("bin/veloc")).unwrap();
    let run = |arguments: &str| {
        let mut command = Command::new(job.path("bin/veloc"));
        command.args(arguments.split(' ')).env_remove("LD_LIBRARY_PATH").output().unwrap()
    };
    let ended = run("bench run --help");
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    let missing = job.path("bin/veloc-bench").display().to_string();
    for part in [&*missing, "cargo build --release --package veloc-bench"] {
        assert!(text.contains(part) && text.lines().count() == 1, "{part}: {text}");
    }
    let text = "#!/bin/sh\necho \"$@ in $LD_LIBRARY_PATH\"\nexit 7\n";
    for name in ["veloc-bench", "veloc-rtm"] {
        write_program(&job.path("bin").join(name), text).unwrap();
    }
    // The demonstration gets the installed software device where there is no GPU.
    fs::create_dir_all(job.path("lib/veloc/softcuda")).unwrap();
    fs::write(job.path("lib/veloc/softcuda/libcuda.so.1"), b"").unwrap();
    let software = if xtask::driver::devices() > 0 { "" } else { "/softcuda" };
    for (arguments, said, device) in [
        ("bench run -h --help", "run -h --help in ", ""),
        ("model --help --node h200", "model --help --node h200 in ", ""),
        ("rtm --steps 7 --help", "--steps 7 --help in ", software),
    ] {
        let ended = run(arguments);
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(text.starts_with(said) && text.contains(device), "{text}");
        assert_eq!(ended.status.code(), Some(7));
    }
}

/// Catches commands without a page, pages of hidden commands, and completions that a shell refuses.
#[test]
fn what_an_installation_has_beside_the_program() {
    let job = Job::new();
    assert_eq!(job.veloc("share share").success(), "");
    let mut pages: Vec<String> = fs::read_dir(job.path("share/man/man1"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for command in ["", "-inspect", "-ls", "-verify", "-doctor", "-backend", "-bench", "-model"] {
        assert!(pages.contains(&format!("veloc{command}.1")), "{command}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("share") || page.contains("help")), "{pages:?}");
    let page = fs::read_to_string(job.path("share/man/man1/veloc-ls.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("persistent"), "{page}");
    // The pages of the two programs beside veloc, not only of the commands of their names.
    let page = fs::read_to_string(job.path("share/man/man1/veloc-backend.1")).unwrap();
    for wanted in ["\\-\\-foreground", "SIGTERM", "exit code", "VELOC BACKEND", "VELOC_BIN"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let page = fs::read_to_string(job.path("share/man/man1/veloc-inspect.1")).unwrap();
    for wanted in ["\\-\\-ckpt", "VELOC INSPECT", "\\-\\-no\\-checksum"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    for file in [
        "bash-completion/completions/veloc",
        "bash-completion/completions/veloc-backend",
        "bash-completion/completions/veloc-inspect",
        "zsh/site-functions/_veloc",
        "fish/vendor_completions.d/veloc.fish",
    ] {
        let text = fs::read_to_string(job.path("share").join(file)).unwrap();
        assert!(text.contains("veloc"), "{file}");
    }
    let bash = job.veloc("completions bash").success();
    assert!(bash.contains("doctor") && bash.contains("default veloc-inspect\n"), "{bash}");
    job.write("completions", bash.as_bytes());
    let checked = Command::new("bash").arg("-n").arg(job.path("completions")).status().unwrap();
    assert!(checked.success());
    assert!(job.veloc("completions zsh").success().starts_with("#compdef veloc\n"));
    assert_eq!(job.veloc("completions cmd").code(), Some(2));
    job.write("file", b"");
    job.veloc("share file/below").failure(&["file/below"]);
}
