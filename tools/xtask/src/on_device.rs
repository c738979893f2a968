//! Tests on the software device. The driver's library is found when a process starts, and so each
//! such test runs in a process of its own: this very program, told to run that one test.

// It fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;
use std::sync::OnceLock;

use crate::stage::{stage, Profile, StagedFolders};

/// Set in the process that runs the test's body.
const MARK: &str = "VELOC_ON_SOFTWARE_DEVICE";

fn staged() -> &'static StagedFolders {
    static STAGE: OnceLock<Result<StagedFolders, String>> = OnceLock::new();
    let stage = STAGE.get_or_init(|| stage(Profile::Debug).map_err(|error| error.to_string()));
    stage.as_ref().unwrap_or_else(|error| panic!("staging the software device: {error}"))
}

/// Runs the body of a test on a software device with 4 GiB. To be called with a closure that stands
/// in the test itself: its name tells which test that is.
pub fn run<Body: FnOnce()>(body: Body) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let name = std::any::type_name::<Body>().trim_end_matches("::{{closure}}");
    let (_, name) = name.split_once("::").unwrap_or_default();
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (variable, _) in std::env::vars_os() {
        let own = variable.to_string_lossy();
        if own.starts_with("VELOC_") || own.starts_with("SOFTCUDA_") {
            command.env_remove(variable);
        }
    }
    command.args(["--exact", name, "--nocapture"]).env(MARK, "1");
    command.env("LD_LIBRARY_PATH", staged().softcuda());
    let ended = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{stdout}\n{stderr}", ended.status);
    // With a wrong name no test runs, and nothing else would say so.
    assert!(stdout.contains("1 passed"), "no test is called {name}\n{stdout}");
    assert!(!stderr.contains("softcuda: misuse"), "{stderr}");
}
