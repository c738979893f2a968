//! What `veloc run` needs: CRIU, and what the system lets this user do.

use std::process::{Command, Stdio};

use supervisor::criu::Criu;

use super::Finding;

const AREA: &str = "veloc run";

/// The capabilities that are needed, by their bits.
const CAPABILITIES: [(u32, &str); 3] =
    [(21, "CAP_SYS_ADMIN"), (40, "CAP_CHECKPOINT_RESTORE"), (19, "CAP_SYS_PTRACE")];

/// Looks for CRIU and for capabilities. Programs that use the library itself need neither.
pub(super) fn look() -> Vec<Finding> {
    [criu(), capabilities()].into_iter().chain(driver()).collect()
}

fn criu() -> Finding {
    let finding = |found: String| Finding::ok(AREA, "CRIU", found);
    let criu = match Criu::find() {
        Ok(criu) => criu,
        Err(error) => {
            return finding(error.to_string())
                .note("needed for programs that cannot be changed alone")
        }
    };
    let found = finding(format!("{} in {}", criu.version(), criu.program().display()));
    let mut check = Command::new(criu.program());
    check.arg("check").stdin(Stdio::null());
    match check.output() {
        Ok(checked) if checked.status.success() => found,
        Ok(checked) => {
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            let said = said
                .lines()
                .find(|line| line.contains("Error"))
                .unwrap_or("it says nothing")
                .to_owned();
            found.note(format!("criu check finds that this kernel lacks something: {said}"))
        }
        Err(error) => found.note(format!("criu check cannot be run: {error}")),
    }
}

fn driver() -> Option<Finding> {
    let finding = |found: &str| Finding::ok(AREA, "programs on a GPU", found);
    Some(match supervisor::can_park()? {
        true => finding("the driver can take them off it and put them back"),
        false => finding("the driver cannot take them off it")
            .note("one of CUDA 12.8 or newer has cuCheckpointProcessCheckpoint"),
    })
}

fn capabilities() -> Finding {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective =
        effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| effective & 1 << bit == 0)
        .map(|(_, name)| *name)
        .collect();
    match &missing[..] {
        [] => Finding::ok(AREA, "capabilities", "all that are needed"),
        _ => Finding::ok(AREA, "capabilities", format!("{} missing", missing.join(", ")))
            .note("a program is started in name spaces of its own, and stopped and written from outside: run veloc run as root, or give it these"),
    }
}
