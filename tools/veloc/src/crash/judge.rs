//! What a crashed process becomes: it starts the program on what the crash has left, and judges what comes of it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use os::interrupt::ends_with_this;
use serde::{Deserialize, Serialize};

/// Start a crashed program again, and judge what it does (used by veloc crash)
#[derive(Debug, Args)]
pub(crate) struct JudgeCommand {
    folder: PathBuf,
}

/// How to judge: the same for all crashes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measure {
    pub program: Vec<OsString>,
    /// Where the program was started.
    pub here: PathBuf,
    pub compare: Option<OsString>,
    /// What the program ends as, and prints, without a crash.
    pub status: i32,
    pub stdout: PathBuf,
    /// Seconds that a crashed program may take.
    pub limit: f64,
    pub model: String,
    pub coins: Vec<String>,
    /// Keep the folder, and what the crash has left in `image`.
    pub keep: bool,
}

/// Only so many folders of wrong results are kept.
const KEPT: usize = 10;
/// The name of the measure, of the results, and of a run's plan.
pub(super) const MEASURE: &str = "measure.json";
pub(super) const RESULTS: &str = "results";
pub(super) const PLAN: &str = "plan";

/// How a crash ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CrashVerdict {
    Right,
    Wrong,
    Hung,
    /// It could not be judged.
    Failed,
}

/// The result of a crash: a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judged {
    pub number: u64,
    pub coin: String,
    pub verdict: CrashVerdict,
    pub why: String,
    /// The iteration marked last before the crash; -1: none.
    pub marked: i64,
    /// Where the program went on; -1: at its begin.
    pub found: Option<i64>,
    /// Bytes that code which was not compiled so had stored before.
    pub foreign: u64,
    pub folder: Option<PathBuf>,
}

pub(crate) fn run(judge: &JudgeCommand) -> Result<()> {
    let folder = &judge.folder;
    let run = folder.parent().context("a folder of no run")?;
    let root = run.parent().context("a run of no campaign")?;
    let text = fs::read(root.join(MEASURE)).context(MEASURE)?;
    let measure: Measure = serde_json::from_slice(&text).context(MEASURE)?;
    let about = fs::read_to_string(folder.join("crash")).context("crash")?;
    let number = |key: &str| -> Option<i64> {
        about.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
    };
    let coin = number("coin").and_then(|nth| measure.coins.get(nth as usize)).cloned();
    let mut judged = Judged {
        number: number("number").unwrap_or(0) as u64,
        coin: coin.unwrap_or_default(),
        verdict: CrashVerdict::Failed,
        why: String::new(),
        marked: number("marked").unwrap_or(-1),
        found: None,
        foreign: number("foreign").unwrap_or(0) as u64,
        folder: None,
    };
    match look(&measure, folder) {
        Ok((verdict, why)) => (judged.verdict, judged.why) = (verdict, why),
        Err(error) => judged.why = format!("{error:#}"),
    }
    let found = fs::read_to_string(folder.join("found")).ok();
    judged.found = found.and_then(|text| text.trim().strip_prefix("iteration ")?.parse().ok());
    let results = run.join(RESULTS);
    let kept = || fs::read_to_string(&results).unwrap_or_default().matches("\"folder\":\"").count();
    if measure.keep || (judged.verdict != CrashVerdict::Right && kept() < KEPT) {
        judged.folder = Some(folder.clone());
    } else {
        fs::remove_dir_all(folder).context("the folder")?;
    }
    let line = serde_json::to_string(&judged)? + "\n";
    let mut results = File::options().append(true).create(true).open(results)?;
    // At once: others append to it, too.
    results.write_all(line.as_bytes()).context(RESULTS)
}

fn look(measure: &Measure, folder: &Path) -> Result<(CrashVerdict, String)> {
    if measure.keep {
        let image = folder.join("image");
        fs::create_dir(&image)?;
        for file in fs::read_dir(folder)? {
            let file = file?;
            if file.file_type()?.is_file() && file.file_name() != "crash" {
                fs::copy(file.path(), image.join(file.file_name()))?;
            }
        }
    }
    let plan = folder.join(PLAN);
    fs::write(&plan, plan_after_a_crash(folder, &measure.model))?;
    let mut command = command(&measure.program, folder, &plan)?;
    command.current_dir(&measure.here);
    let Some(status) = within(&mut command, measure.limit)? else {
        return Ok((CrashVerdict::Hung, format!("it ran for {:.0} s", measure.limit)));
    };
    if let Some((verdict, mut why)) = compared(measure, folder)? {
        if verdict == CrashVerdict::Wrong && status.into_raw() != measure.status {
            why += &format!("; the program ended with {status}{}", said(folder));
        }
        return Ok((verdict, why));
    }
    if status.into_raw() != measure.status {
        return Ok((CrashVerdict::Wrong, format!("it ended with {status}{}", said(folder))));
    }
    let (printed, expected) = (fs::read(folder.join("stdout"))?, fs::read(&measure.stdout)?);
    Ok(match first_difference(&printed, &expected) {
        None => (CrashVerdict::Right, String::new()),
        Some(what) => (CrashVerdict::Wrong, what),
    })
}

/// The program's own reason: the last line that it has written to standard error, or else printed.
pub(super) fn said(folder: &Path) -> String {
    let last = |name| {
        let text = fs::read(folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(format!(", saying \"{}\"", line.chars().take(200).collect::<String>()))
    };
    last("stderr").or_else(|| last("stdout")).unwrap_or_default()
}

/// What the user's comparison says of what is in the folder; `None` if there is none.
pub(super) fn compared(measure: &Measure, folder: &Path) -> Result<Option<(CrashVerdict, String)>> {
    let Some(compare) = &measure.compare else { return Ok(None) };
    let mut command = Command::new("sh");
    command.arg("-c").arg(compare).current_dir(folder);
    command.env("VELOC_CRASH_REFERENCE", &measure.stdout).stdin(Stdio::null());
    command.stdout(File::create(folder.join("compared"))?);
    Ok(Some(match within(&mut command, measure.limit)? {
        None => (CrashVerdict::Hung, format!("the comparison ran for {:.0} s", measure.limit)),
        Some(status) if status.success() => (CrashVerdict::Right, String::new()),
        Some(status) => (CrashVerdict::Wrong, format!("the comparison ended with {status}")),
    }))
}

/// The plan of a program whose accesses are not followed.
pub(super) fn plan_after_a_crash(folder: &Path, model: &str) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut text = b"mode recover\nfolder ".to_vec();
    text.extend(folder.as_os_str().as_bytes());
    text.extend(format!("\nmodel {model}\n").as_bytes());
    text
}

/// A program that writes to files in this folder, and ends with this process.
pub(super) fn command(program: &[OsString], folder: &Path, plan: &Path) -> Result<Command> {
    let (name, arguments) = program.split_first().context("no program")?;
    let mut command = Command::new(name);
    command.args(arguments).env("VELOC_CRASH_PLAN", plan).stdin(Stdio::null());
    command.stdout(File::create(folder.join("stdout"))?);
    command.stderr(File::create(folder.join("stderr"))?);
    ends_with_this(&mut command);
    Ok(command)
}

/// Runs a command; `None` if it was killed, with all that it has started, after that many seconds.
fn within(command: &mut Command, limit: f64) -> Result<Option<ExitStatus>> {
    let mut child = ends_with_this(command).spawn().context("starting the program")?;
    let since = Instant::now();
    let mut pause = Duration::from_micros(200);
    while since.elapsed().as_secs_f64() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    kill(&mut child)?;
    Ok(None)
}

fn kill(child: &mut Child) -> Result<()> {
    // SAFETY: the group of a child that was not waited for.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    child.wait()?;
    Ok(())
}

/// Where two outputs differ first.
pub(super) fn first_difference(printed: &[u8], expected: &[u8]) -> Option<String> {
    if printed == expected {
        return None;
    }
    let mut lines = printed.split(|byte| *byte == b'\n').zip(expected.split(|byte| *byte == b'\n'));
    let show = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    Some(match lines.find(|(one, other)| one != other) {
        Some((one, other)) => format!("it printed \"{}\" for \"{}\"", show(one), show(other)),
        None => format!("it printed {} bytes for {}", printed.len(), expected.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches outputs of different lengths that are taken for the same.
    #[test]
    fn outputs_are_compared_whole() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        let differ = |one: &[u8], other: &[u8]| first_difference(one, other).unwrap();
        assert_eq!(differ(b"a\nc\n", b"a\nb\n"), "it printed \"c\" for \"b\"");
        assert_eq!(differ(b"a\n", b"a\nb\n"), "it printed \"\" for \"b\"");
        assert_eq!(differ(b"a", b"a\n"), "it printed 1 bytes for 2");
    }

    /// Catches a reason that is not shown, empty lines behind it that are, and one of a million letters.
    #[test]
    fn the_last_words_are_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let said = || said(folder.path());
        assert_eq!(said(), "");
        fs::write(folder.path().join("stdout"), "sum 1\nno iteration\n").unwrap();
        fs::write(folder.path().join("stderr"), "\n").unwrap();
        assert_eq!(said(), ", saying \"no iteration\"");
        fs::write(folder.path().join("stderr"), "searches\n gives up: rho = 0\n\n").unwrap();
        assert_eq!(said(), ", saying \"gives up: rho = 0\"");
        fs::write(folder.path().join("stderr"), "x".repeat(1_000_000)).unwrap();
        assert!(said().len() < 300);
    }

    /// Catches a program that hangs and is waited for, or leaves processes that do.
    #[test]
    fn what_hangs_is_killed_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $! > \"$0\"; wait"]).arg(&file);
        // On a busy machine it may not have started its child within a second.
        let child: u32 = [1.0, 10.0, 100.0]
            .into_iter()
            .find_map(|limit| {
                assert!(within(&mut shell, limit).unwrap().is_none());
                fs::read_to_string(&file).ok()?.trim().parse().ok()
            })
            .unwrap();
        let since = Instant::now();
        while os::is_alive(child) {
            assert!(since.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(within(&mut Command::new("true"), 60.0).unwrap().unwrap().success());
    }
}
