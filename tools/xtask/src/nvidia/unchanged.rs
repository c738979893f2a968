//! Programs that know nothing of checkpoints, made by NVIDIA's compilers: `veloc run` makes versions of them, kills take
//! them, and they print what they print alone.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{geteuid, kill_process, Pid, Signal};

use super::compiler::{Compiler, Ptx};
use super::kernels::shown;
use super::{had, Findings};
use crate::criu;
use crate::error::{Error, Result, While};
use crate::files::read;
use crate::project::{line, output, root};
use crate::stage::{build_program, Profile, StagedFolders};

/// The programs of `gpu/unchanged/plain.cu`.
const PROGRAMS: [&str; 4] = ["lu", "hotspot", "gauss", "particles"];

/// Their size.
const SIZE: &str = "64";

/// Their steps for each kill, many more than they come to: a version may take long. Without a kill they end in minutes.
const STEPS: usize = 300_000;

/// Steps for each line that they print.
const STEPS_OF_LINE: usize = 8;

/// The most bytes that a program prints from a version to a kill.
const TO_KILL: u64 = 2000;

/// Longer than any program prints nothing.
const PATIENCE: Duration = Duration::from_secs(300);

/// Checks the programs of one compiler, which `folder` is for.
pub(super) fn check(
    findings: &mut Findings,
    (name, compiler): (&str, &Compiler),
    stage: &StagedFolders,
    folder: &Path,
) -> Result<()> {
    let Some(criu) = had(&format!("veloc run: {name}"), criu()) else { return Ok(()) };
    let veloc = build_program("veloc-cli", "veloc", Profile::Release)?;
    let kills = kills()?;
    let (plain, device) = (folder.join("plain"), stage.softcuda());
    let source = root().join("gpu/unchanged/plain.cu");
    let folders = (&*stage.include(), &*stage.lib());
    let path = device.display().to_string();
    // If it used the library, it would not find it.
    let compiled = compiler.compile(&source, folders, &path, Ptx::Plain, &plain);
    findings.add(&format!("{}: {name}", shown(&source)), compiled);
    for program in PROGRAMS {
        let job = Job { veloc: &veloc, criu: &criu, plain: &plain, program, device: &device };
        findings.add(&format!("veloc run plain {program}: {name}"), job.storm(kills));
    }
    Ok(())
}

/// CRIU, for a user who may use it.
fn criu() -> Result<PathBuf> {
    if !geteuid().is_root() {
        return Err(Error::new("it is for root alone"));
    }
    criu::find()
}

/// How many kills: `VELOC_RUN_KILLS`, or 2.
fn kills() -> Result<usize> {
    let Ok(given) = std::env::var("VELOC_RUN_KILLS") else { return Ok(2) };
    given.parse().when(|| format!("VELOC_RUN_KILLS={given}"))
}

/// A program, and what it is run with.
struct Job<'a> {
    veloc: &'a Path,
    criu: &'a Path,
    plain: &'a Path,
    program: &'a str,
    device: &'a Path,
}

impl Job<'_> {
    /// Kills the program so often, each time after a version, from which it goes on. It has to print what it prints
    /// alone.
    fn storm(&self, kills: usize) -> Result<()> {
        let place = tempfile::tempdir().when(|| "making a folder".into())?;
        let command = |program: &Path, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).current_dir(&place).stdin(Stdio::null());
            command.env("VELOC_CRIU", self.criu).env("LD_LIBRARY_PATH", self.device);
            command
        };
        let plain = |steps: usize| {
            [self.program, SIZE].map(str::to_owned).into_iter().chain([steps.to_string()])
        };

        let printed = place.path().join("printed");
        let file = File::create(&printed).when(|| format!("making {}", printed.display()))?;
        let mut run = command(self.veloc, &["run", "--dir", "D"]);
        run.arg(self.plain).args(plain(STEPS * (kills + 1))).stdout(file);
        let mut running = Running::start(&mut run)?;
        for _ in 0..kills {
            running.wait_for(1, &printed)?;
            output(&mut command(self.veloc, &["checkpoint", "D"]))?;
            running.wait_for(RandomState::new().build_hasher().finish() % TO_KILL, &printed)?;
            drop(running);
            // It has the file that it had.
            running = Running::start(&mut command(self.veloc, &["restart", "D"]))?;
        }
        running.wait_for(1, &printed)?;
        drop(running);

        let mut printed = read(&printed)?;
        printed.truncate(printed.rfind('\n').map_or(0, |end| end + 1));
        let steps = STEPS_OF_LINE * printed.lines().count();
        let alone = output(command(self.plain, &[]).args(plain(steps)))?;
        compare(&(printed + "done\n"), &alone)
    }
}

/// Fails at the first line that is not as expected.
fn compare(printed: &str, expected: &str) -> Result<()> {
    let different = printed.lines().zip(expected.lines()).find(|(one, other)| one != other);
    match different {
        Some((one, other)) => Err(Error::new(format!("it printed {one}, and alone {other}"))),
        None if printed != expected => Err(Error::new("it printed other lines than alone")),
        None => Ok(()),
    }
}

/// A supervisor with its program, which end with this.
struct Running(Child, String);

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let what = line(command);
        Ok(Running(command.spawn().when(|| format!("starting {what}"))?, what))
    }

    /// Waits until it has printed so many bytes more.
    fn wait_for(&mut self, more: u64, printed: &Path) -> Result<()> {
        let Running(supervisor, what) = self;
        let bytes =
            || Ok(fs::metadata(printed).when(|| format!("reading {}", printed.display()))?.len());
        let enough = bytes()? + more;
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let now = bytes()?;
            if now >= enough {
                return Ok(());
            }
            if let Some(status) = supervisor.try_wait().when(|| format!("waiting for {what}"))? {
                return Err(Error::new(format!("{what} ended ({status}) before it was killed")));
            }
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(Error::new(format!("{what} prints nothing any more")));
            }
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    /// Kills the supervisor, and with the first process of its name space all others.
    fn drop(&mut self) {
        let supervisor = &mut self.0;
        if !matches!(supervisor.try_wait(), Ok(None)) {
            return;
        }
        let number = supervisor.id();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        let _ = supervisor.kill();
        for child in children.unwrap_or_default().split_whitespace() {
            if let Some(child) = child.parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        let _ = supervisor.wait();
    }
}
