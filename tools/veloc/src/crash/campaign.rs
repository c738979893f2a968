//! A campaign: the program without a simulation, then counted, then with crashes.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

use anyhow::{bail, ensure, Context as _, Result};
use indicatif::ProgressBar;
use os::interrupt;
use tempfile::TempDir;

use super::chosen::{chosen, Chosen};
use super::judge::{
    command, compared, first_difference, plan_after_a_crash, said, CrashVerdict, Judged, Measure,
    MEASURE, PLAN, RESULTS,
};
use super::seen::{CallSite, SeenRun};
use super::{CrashCommand, CrashModel, Replacement};
use crate::output;

/// A program whose accesses were counted.
pub(super) struct Campaign<'a> {
    crash: &'a CrashCommand,
    /// Of all runs, each of which has a folder in it.
    folder: TempDir,
    /// What a run without a crash gives.
    stdout: Vec<u8>,
    status: i32,
    /// Seconds, without and with the simulation.
    pub seconds: (f64, f64),
    pub counted: SeenRun,
    seed: u64,
    coins: Vec<String>,
    jobs: u64,
}

/// A run with crashes.
pub(super) struct CrashedRun {
    pub judged: Vec<Judged>,
    /// Those that were chosen from all accesses: how much is lost, they tell.
    pub random: BTreeSet<u64>,
    pub foreign: u64,
    pub stored: Vec<super::seen::UnseenStore>,
    /// The program itself went another way than without crashes; or it was killed.
    pub itself: Option<String>,
    /// Crashes that came to nothing.
    pub failed: usize,
}

struct EndedRun {
    status: ExitStatus,
    seconds: f64,
    judged: Vec<Judged>,
    failed: usize,
    stopped: bool,
}

/// How to compile a program for the simulation.
const HOW: &str = "compile it with `gcc -O2 -g -fsanitize=thread -fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove \
    -c x.c`, and link it without -fsanitize=thread, but with `-lveloc-crash` before `-lveloc-client`";
/// What says that enough crashes are judged.
type Enough<'a> = &'a dyn Fn(&[Judged]) -> bool;
/// Why code that was compiled so may still have stored unseen.
pub(super) const UNSEEN: &str = "a library, a system call, or a copy that the compiler has put in place of a call: compile \
    C and C++ with -fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove, Fortran on x86-64 with \
    -mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign";

impl<'a> Campaign<'a> {
    /// Runs the program without a crash, twice, and counts its accesses.
    ///
    /// # Errors
    /// It cannot be started; it was not compiled for the simulation; or it prints something else the second time.
    pub(super) fn begin(crash: &'a CrashCommand) -> Result<Campaign<'a>> {
        without_random_addresses();
        adopt()?;
        interrupt::watch()?;
        let folder = tempfile::Builder::new().prefix("veloc-crash-").tempdir()?;
        let own = std::env::current_exe().context("the program veloc")?;
        let processors = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
        let mut coins = crash.coin.0.clone();
        if crash.model.is_some_and(|model| model != CrashModel::Power) && coins.len() > 1 {
            coins.retain(|coin| coin != "cache");
        }
        let mut campaign = Campaign {
            crash,
            folder,
            stdout: Vec::new(),
            status: 0,
            seconds: (0.0, 0.0),
            counted: SeenRun::default(),
            seed: crash.only.map_or(crash.seed, |(seed, _)| seed),
            coins,
            jobs: crash.jobs.unwrap_or(processors),
        };
        let tokens = CString::new(campaign.path("tokens").as_os_str().as_bytes())?;
        // SAFETY: a string with NUL.
        let made = unsafe { libc::mkfifo(tokens.as_ptr(), 0o600) };
        ensure!(made == 0, "mkfifo: {}", std::io::Error::last_os_error());

        let plain = campaign.new_run("plain")?;
        fs::write(plain.join(PLAN), plan_after_a_crash(&plain, campaign.model()))?;
        let clock = output::clock("the program runs without a simulation");
        let ended = campaign.start(&plain, None, &clock)?;
        campaign.seconds.0 = ended.seconds;
        campaign.status = ended.status.into_raw();
        campaign.stdout = fs::read(plain.join("stdout"))?;

        let counting = campaign.new_run("count")?;
        campaign.write_plan(&counting, &own, None, &[])?;
        clock.set_message("its accesses are counted");
        let ended = campaign.start(&counting, None, &clock)?;
        drop(clock);
        campaign.seconds.1 = ended.seconds;
        campaign.counted = campaign.check(&counting, ended.status)?;
        if crash.compare.is_none() {
            let stdout = fs::read(counting.join("stdout"))?;
            if let Some(what) = first_difference(&stdout, &campaign.stdout) {
                bail!("without a crash, the second time {what}: judge it by --compare");
            }
        }
        let measure = Measure {
            program: crash.program.clone(),
            here: std::env::current_dir()?,
            compare: crash.compare.clone(),
            status: campaign.status,
            stdout: plain.join("stdout"),
            limit: 30.0 * campaign.seconds.0 + 60.0,
            model: campaign.model().to_owned(),
            coins: campaign.coins.clone(),
            keep: crash.only.is_some(),
        };
        if let Some(why) =
            compared(&measure, &plain)?.filter(|(verdict, _)| *verdict != CrashVerdict::Right)
        {
            bail!("without a crash, {}", why.1);
        }
        fs::write(campaign.path(MEASURE), serde_json::to_vec(&measure)?)?;
        Ok(campaign)
    }

    /// What chooses the crashes.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// All names have 5 letters: the stack of a program begins behind them, and so its lines in the cache depend on them.
    fn new_run(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    fn model(&self) -> &'static str {
        match self.crash.model {
            None => "asked",
            Some(CrashModel::Process) => "process",
            Some(CrashModel::Power) => "power",
            Some(CrashModel::Page) => "page",
        }
    }

    fn write_plan(
        &self,
        run: &Path,
        own: &Path,
        left_out: Option<&CallSite>,
        crashes: &[u64],
    ) -> Result<()> {
        let mut file = std::io::BufWriter::new(File::create(run.join(PLAN))?);
        writeln!(file, "mode track")?;
        for (key, path) in [("folder", run), ("tool", own), ("tokens", &self.path("tokens"))] {
            ensure!(!path.as_os_str().as_bytes().contains(&b'\n'), "{path:?} has two lines");
            file.write_all(&[key.as_bytes(), b" ", path.as_os_str().as_bytes(), b"\n"].concat())?;
        }
        let crash = self.crash;
        let replace = if crash.replace == Replacement::Lru { "lru" } else { "random" };
        writeln!(file, "model {}\ncache {}", self.model(), crash.cache.bytes)?;
        writeln!(file, "ways {}\nreplace {replace}\nseed {}", crash.cache.ways, self.seed)?;
        for coin in &self.coins {
            writeln!(file, "coin {coin}")?;
        }
        if let Some(CallSite { kind, place, .. }) = left_out {
            writeln!(file, "left-out {kind} {} {}", place.offset, place.object)?;
        }
        for crash in crashes {
            writeln!(file, "crash {crash}")?;
        }
        file.flush().context("the plan")
    }

    /// Starts the program, and waits for it and for all that has come of its crashes. `enough`: what is known of them
    /// suffices. `progress` counts the crashes.
    fn start(
        &self,
        run: &Path,
        enough: Option<Enough<'_>>,
        progress: &ProgressBar,
    ) -> Result<EndedRun> {
        let tokens = File::options().read(true).write(true).open(self.path("tokens"))?;
        (&tokens).write_all(&vec![0; self.jobs as usize])?;
        let mut command = command(&self.crash.program, run, &run.join(PLAN))?;
        let since = Instant::now();
        let name = || self.crash.program[0].display().to_string();
        let spawn = || command.spawn().with_context(name);
        let child = interrupt::start(self.folder.path(), spawn)?.id();
        let (mut ended, mut stopped, mut failed) = (None, false, 0);
        while let Some((process, status)) = wait()? {
            if process == child {
                ended = Some((status, since.elapsed().as_secs_f64()));
                continue;
            }
            // That of a crash, whatever has become of it.
            failed += usize::from(!status.success());
            progress.inc(1);
            (&tokens).write_all(&[0])?;
            // All of them are read each time.
            let is_enough = |enough: Enough<'_>| results(run).map(|judged| enough(&judged));
            if ended.is_none() && !stopped && enough.map_or(Ok(false), is_enough)? {
                stopped = true;
                // SAFETY: a child that was not waited for.
                unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) };
            }
        }
        interrupt::ended();
        let (status, seconds) = ended.context("the program was not seen to end")?;
        Ok(EndedRun { status, seconds, judged: results(run)?, failed, stopped })
    }

    /// What was seen of a run, if it can have been seen.
    fn check(&self, run: &Path, status: ExitStatus) -> Result<SeenRun> {
        let program = self.crash.program[0].display();
        let Some(seen) = SeenRun::read(&run.join("summary"))? else {
            let said = fs::read_to_string(run.join("stderr")).unwrap_or_default();
            let said: Vec<_> = said.lines().rev().take(5).collect();
            let said: Vec<_> = said.into_iter().rev().collect();
            if run.join("claimed").exists() {
                bail!("{program} has ended with {status}, and not by exit:\n{}", said.join("\n"));
            }
            if !status.success() {
                bail!("{program} has ended with {status}:\n{}", said.join("\n"));
            }
            bail!("{program} is not linked with libveloc-crash: {HOW}");
        };
        if let Some((function, object)) = seen.shadowed.first() {
            bail!("{program} has {function} of {object}, not of libveloc-crash: {HOW}");
        }
        if seen.files.is_empty() && !status.success() {
            bail!("{program} has ended with {status}{}", said(run));
        }
        ensure!(seen.compiled > 0, "{program} has no code that was compiled for this: {HOW}");
        ensure!(
            !seen.files.is_empty(),
            "{program} has opened no file of arrays (VELOC_Pmem_open), or not by libveloc-client: {HOW}"
        );
        Ok(seen)
    }

    /// Runs the program with all crashes.
    pub(super) fn run(&self) -> Result<CrashedRun> {
        self.run_with(None, "crash", None)
    }

    /// Runs the program without a call of the library, up to the first crash of which that is `enough`.
    pub(super) fn run_with(
        &self,
        left_out: Option<&CallSite>,
        name: &str,
        enough: Option<Enough<'_>>,
    ) -> Result<CrashedRun> {
        let run = self.new_run(name)?;
        let moments = self.counted.sites.iter().map(|site| &site.moments[..]);
        let Chosen { random, around } = match self.crash.only {
            Some((_, number)) => Chosen { random: [number].into(), around: BTreeSet::new() },
            None => chosen(self.seed, self.crash.runs, self.counted.accesses, moments),
        };
        let crashes: Vec<u64> = random.union(&around).copied().collect();
        let own = std::env::current_exe().context("the program veloc")?;
        self.write_plan(&run, &own, left_out, &crashes)?;
        let what = left_out.map_or("crashes".to_owned(), |call| format!("without {}", call.kind));
        let bar = output::count_bar(&what, crashes.len() as u64);
        let ended = self.start(&run, enough, &bar);
        bar.finish_and_clear();
        let EndedRun { status, mut judged, failed, stopped, .. } = ended?;
        judged.sort_by_key(|judged| judged.number);
        if let (Some((_, number)), true) = (self.crash.only, judged.is_empty()) {
            bail!(
                "there is no access {number} to crash before; there are {}",
                self.counted.accesses
            );
        }
        let seen = SeenRun::read(&run.join("summary"))?;
        let mut itself = None;
        if !stopped {
            let stdout = fs::read(run.join("stdout"))?;
            let printed = first_difference(&stdout, &self.stdout);
            let other =
                (status.into_raw() != self.status).then(|| format!("it ended with {status}"));
            itself = other.or(printed.filter(|_| self.crash.compare.is_none()));
            if itself.is_none() && seen.is_none() {
                itself = Some("it has not ended by exit".to_owned());
            }
        }
        let seen = seen.unwrap_or_default();
        let (foreign, stored) = match self.counted.foreign {
            0 => (seen.foreign, seen.stored),
            foreign => (foreign, self.counted.stored.clone()),
        };
        if let (Some(what), None) = (&itself, left_out) {
            let said = fs::read_to_string(run.join("stderr")).unwrap_or_default();
            bail!("with crashes simulated, though not in this process, {what}\n{said}");
        }
        Ok(CrashedRun { judged, random, foreign, stored, itself, failed })
    }

    /// The folder of all runs, if one of them is to be looked at.
    pub(super) fn keep(self, found: &CrashedRun) -> CampaignResults {
        let any = found.judged.iter().any(|judged| judged.folder.is_some());
        let Campaign { folder, seconds, counted, seed, .. } = self;
        CampaignResults { folder: any.then(|| folder.keep()), seconds, counted, seed }
    }
}

/// What is left of a campaign.
pub(super) struct CampaignResults {
    pub folder: Option<PathBuf>,
    pub seconds: (f64, f64),
    pub counted: SeenRun,
    pub seed: u64,
}

impl CrashedRun {
    /// Whether all stores were seen.
    pub(super) fn credible(&self) -> bool {
        self.foreign == 0
    }

    /// How many crashes did not end right.
    pub(super) fn wrong(&self) -> usize {
        let wrong = self.judged.iter().filter(|judged| judged.verdict != CrashVerdict::Right);
        wrong.count() + self.failed
    }
}

impl Judged {
    /// Marked iterations that were not gone on from; `None` if the program has not said where it went on.
    pub(super) fn lost(&self) -> Option<i64> {
        if self.marked < 0 {
            return Some(0);
        }
        Some((self.marked - self.found?.max(-1)).max(0))
    }
}

fn results(run: &Path) -> Result<Vec<Judged>> {
    let text = fs::read_to_string(run.join(RESULTS)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).context("a result")).collect()
}

/// Which line of the cache an address has must not change from run to run.
fn without_random_addresses() {
    // SAFETY: asks, and then changes what the programs started from here have.
    let changed = unsafe {
        let now = libc::personality(0xffff_ffff);
        libc::personality((now | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong)
    };
    if changed < 0 {
        eprintln!("the system gives random addresses: with --coin cache no crash can be repeated");
    }
}

/// Processes that crashes have made, and whose parents have ended, become this one's.
fn adopt() -> Result<()> {
    // SAFETY: a flag of this process.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    ensure!(done == 0, "prctl: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Waits for the next process to end; `None` if there is none left.
fn wait() -> Result<Option<(u32, ExitStatus)>> {
    loop {
        let mut status = 0;
        // SAFETY: into a value that lives.
        let process = unsafe { libc::waitpid(-1, &mut status, 0) };
        if process > 0 {
            return Ok(Some((process as u32, ExitStatus::from_raw(status))));
        }
        match std::io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            error if error.raw_os_error() == Some(libc::EINTR) => {}
            error => return Err(error).context("waitpid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches iterations that count as lost though none was marked, and a start at the begin that loses none.
    #[test]
    fn lost_are_marked_iterations() {
        let lost = |marked, found| {
            let text = format!(
                "{{\"number\":1,\"coin\":\"0\",\"verdict\":\"right\",\"why\":\"\",\"marked\":{marked},\"foreign\":0}}"
            );
            let judged: Judged = serde_json::from_str(&text).unwrap();
            Judged { found, ..judged }.lost()
        };
        assert_eq!(lost(-1, None), Some(0));
        assert_eq!(lost(7, Some(7)), Some(0));
        assert_eq!(lost(7, Some(8)), Some(0));
        assert_eq!(lost(7, Some(5)), Some(2));
        assert_eq!(lost(7, Some(-1)), Some(8));
        assert_eq!(lost(7, None), None);
    }
}
