//! Runs the measuring processes of one repeat: starts them together, passes them from barrier to
//! barrier, collects their figures, and ends all if one fails or none makes progress.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use device::{probe, Probe};

use super::child::command;
use super::message::{Barrier, WorkerMessage, WorkerRequest};
use super::plan::PointPlan;
use super::results::{MeasuredDevice, ProcessFigures, RepeatFigures};
use super::timelines;

/// A measuring process. Dropping it ends it.
struct MeasuringProcess {
    child: Child,
    input: ChildStdin,
    errors: std::fs::File,
}

/// The results of one repeat.
#[derive(Debug)]
pub(super) struct Repeat {
    /// The figures of each process.
    pub run: RepeatFigures,
    /// The seconds of bare copies: for each process its passes, for each pass its copies.
    pub copies: Vec<Vec<Vec<f64>>>,
    /// The warnings that the processes gave beside the figures.
    pub notes: Vec<String>,
}

/// The figures of one process, and its bare copies by pass.
type Measured = (ProcessFigures, Vec<Vec<f64>>);

/// A message of a process, or `None` after its last one.
type ProcessMessage = (usize, Option<WorkerMessage>);

impl MeasuringProcess {
    fn start(
        number: usize,
        request: &WorkerRequest,
        timeline: Option<&Path>,
        said: Sender<ProcessMessage>,
    ) -> Result<MeasuringProcess> {
        let errors = tempfile::tempfile().context("a temporary file for messages")?;
        let mut command = command(["worker"])?;
        if let Some(timeline) = timeline {
            command.env(timelines::VARIABLE, timeline);
        }
        command.stderr(errors.try_clone().context("a temporary file for messages")?);
        let mut child = command.spawn().context("starting a measuring process")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(mut input), Some(output)) = (input, output) else {
            bail!("a measuring process without pipes");
        };
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Lines that the driver or a library prints on its own are no messages.
                if let Ok(message) = serde_json::from_str(&line) {
                    if said.send((number, Some(message))).is_err() {
                        return;
                    }
                }
            }
            let _ = said.send((number, None));
        });
        let sent = writeln!(input, "{}", serde_json::to_string(request)?);
        let mut process = MeasuringProcess { child, input, errors };
        sent.with_context(|| process.last_words("could not be asked"))?;
        Ok(process)
    }

    fn go(&mut self) -> Result<()> {
        writeln!(self.input, "go").context("a measuring process has gone")
    }

    /// The lines that the process has written to its standard error.
    fn errors(&mut self) -> Vec<String> {
        let mut text = String::new();
        let read = self
            .errors
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.errors.read_to_string(&mut text));
        if let Err(error) = read {
            text = format!("its messages cannot be read: {error}");
        }
        text.lines().map(str::to_owned).collect()
    }

    fn last_words(&mut self, what: &str) -> String {
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        };
        let errors = self.errors();
        let last = errors.len().saturating_sub(8);
        format!("a measuring process {what}{status}; {}", errors[last..].join("; "))
    }
}

impl Drop for MeasuringProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The device that measuring processes use, as the driver describes it, without a context on it.
pub(super) fn device() -> Result<MeasuredDevice> {
    let (cuda, software, devices) = match probe()? {
        Probe::NoDriver(why) => bail!(
            "no CUDA driver was found ({why}); `cargo xtask veloc` brings a software device along, as \
             `run.sh --software` of a GPU bundle does"
        ),
        Probe::NoDevice => bail!("the CUDA driver finds no CUDA-capable device"),
        Probe::Devices { driver_version, software, devices } => (driver_version, software, devices),
    };
    let first = devices.first().context("the CUDA driver has no device")?;
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let mut words = text.split_whitespace();
    let driver = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let driver = driver.unwrap_or_default().to_owned();
    Ok(MeasuredDevice { name: first.name.clone(), memory: first.total, driver, cuda, software })
}

/// One repeat of a plan, of at most `limit`. `progress` is told how many checkpoints and restores
/// are done, over all processes. With a `timeline`, the processes record their timelines to files
/// of that name.
pub(super) fn repeat(
    plan: &PointPlan,
    limit: Duration,
    timeline: Option<&Path>,
    mut progress: impl FnMut(u64),
) -> Result<Repeat> {
    let (said, hear) = channel();
    let mut processes = (0..plan.processes)
        .map(|process| {
            let request = WorkerRequest { plan: Box::new(plan.clone()), process };
            MeasuringProcess::start(process as usize, &request, timeline, said.clone())
        })
        .collect::<Result<Vec<_>>>()?;
    drop(said);
    let measured = conduct(&mut processes, &hear, limit, &mut progress)?;
    let mut notes = BTreeSet::new();
    for process in &mut processes {
        // The process is done and is about to end.
        process.child.wait().context("waiting for a measuring process")?;
        notes.extend(process.errors());
    }
    let (figures, copies) = measured.into_iter().unzip();
    Ok(Repeat {
        run: RepeatFigures { processes: figures },
        copies,
        notes: notes.into_iter().collect(),
    })
}

fn conduct(
    processes: &mut [MeasuringProcess],
    hear: &Receiver<ProcessMessage>,
    limit: Duration,
    progress: &mut impl FnMut(u64),
) -> Result<Vec<Measured>> {
    let until = Instant::now() + limit;
    let count = processes.len();
    let mut waiting: Vec<Option<Barrier>> = vec![None; count];
    let mut done = vec![0; count];
    let mut figures: Vec<Option<Box<ProcessFigures>>> = vec![None; count];
    let mut copies = vec![Vec::new(); count];
    while figures.iter().any(Option::is_none) {
        let left = until.saturating_duration_since(Instant::now());
        let (process, message) = match hear.recv_timeout(left) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => {
                bail!(
                    "not done in {:.0} s ({} of them ended)",
                    limit.as_secs_f64(),
                    ended(&figures)
                )
            }
            Err(RecvTimeoutError::Disconnected) => bail!("every measuring process is gone"),
        };
        match message {
            Some(WorkerMessage::At(barrier)) => {
                waiting[process] = Some(barrier);
                if waiting.iter().all(|other| *other == Some(barrier)) {
                    waiting.fill(None);
                    processes.iter_mut().try_for_each(MeasuringProcess::go)?;
                }
            }
            Some(WorkerMessage::Progress(steps)) => {
                done[process] = steps;
                progress(done.iter().sum());
            }
            Some(WorkerMessage::Copies(passes)) => copies[process] = passes,
            Some(WorkerMessage::Done(found)) => figures[process] = Some(found),
            Some(WorkerMessage::Failed(why)) => bail!("process {process}: {why}"),
            None => ensure!(
                figures[process].is_some(),
                "process {process}: {}",
                processes[process].last_words("ended")
            ),
        }
    }
    Ok(figures.into_iter().flatten().map(|figures| *figures).zip(copies).collect())
}

fn ended(figures: &[Option<Box<ProcessFigures>>]) -> usize {
    figures.iter().flatten().count()
}
