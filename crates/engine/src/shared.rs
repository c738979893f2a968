//! The parts of an engine, which the application's thread and the workers share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::captures::Captures;
use super::device_side::DeviceSide;
use super::file_side::FileSide;
use super::host_side::HostSide;
use super::ordered::OrderedCopies;
use super::succession::Succession;
use super::telemetry::Telemetry;
use crate::monitor::Catalog;
use catalog::state::State;
use catalog::Level;
use config::Config;
use errors::{Error, ErrorKind, Result};
use files::Files;
use levels::host_buffer::HostBuffer;
use levels::store::Store;
use recovery::link::Link;
use trace::{Counter, Recorder};

/// The state of a job.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    /// Where each checkpoint is.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) succession: Arc<Succession>,
    pub(crate) device_side: DeviceSide,
    pub(crate) host_side: HostSide,
    pub(crate) file_side: FileSide,
    pub(crate) captures: Captures,
    pub(crate) ordered: OrderedCopies,
    stopping: AtomicBool,
}

/// Captures of the application's memory, on its threads.
#[derive(Clone, Copy, Debug)]
pub struct Capturing<'a> {
    pub(super) shared: &'a Shared,
}

/// Restores to the application's memory, on its threads.
#[derive(Clone, Copy, Debug)]
pub struct Restores<'a> {
    pub(super) shared: &'a Shared,
}

/// What the parts of an engine are made of.
#[derive(Debug)]
pub(crate) struct Materials {
    pub config: Config,
    pub catalog: Catalog,
    /// The host buffer, and the levels of memory below it.
    pub host: (Option<HostBuffer>, Vec<Box<dyn Store>>),
    pub files: Files,
    /// The backend, or why there is no memory of the job before.
    pub link: Option<Link>,
    pub missing: Option<String>,
    pub trace: Recorder,
}

impl Shared {
    /// The state of a job that is starting.
    pub(crate) fn new(of: Materials) -> Self {
        let (config, catalog) = (Arc::new(of.config), Arc::new(of.catalog));
        let telemetry = Arc::new(Telemetry::new(of.trace));
        let succession =
            Arc::new(Succession::new(config.clone(), telemetry.clone(), of.link, of.missing));
        let (buffer, lower) = of.host;
        Shared {
            device_side: DeviceSide::new(telemetry.clone()),
            host_side: HostSide::new(&config, catalog.clone(), telemetry.clone(), buffer, lower),
            file_side: FileSide::new(
                config.clone(),
                catalog.clone(),
                telemetry.clone(),
                succession.clone(),
                of.files,
            ),
            captures: Captures::new(telemetry.clone()),
            ordered: OrderedCopies::default(),
            config,
            catalog,
            telemetry,
            succession,
            stopping: AtomicBool::new(false),
        }
    }

    /// The job ends: everything that can stop early does.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.catalog.stop();
        self.host_side.stop();
        self.succession.stop();
        self.file_side.stop();
        self.ordered.stop();
    }

    pub(crate) fn capturing(&self) -> Capturing<'_> {
        Capturing { shared: self }
    }

    pub(crate) fn restores(&self) -> Restores<'_> {
        Restores { shared: self }
    }

    /// Whether the job is ending.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// # Errors
    /// The job is ending, and what is not in a file yet is its successor's, if it has one.
    pub(crate) fn go_on(&self) -> Result<()> {
        match self.stopping() {
            true => Err(Error::new(ErrorKind::Internal, "the job is ending")),
            false => Ok(()),
        }
    }

    /// Makes a step of the catalog that changes how many bytes of the levels of memory are used, and records the
    /// numbers. They are recorded within the step, or records could be out of order.
    pub(crate) fn step_counted<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        self.catalog.step(|state| {
            let result = step(state);
            let used = [Level::DEVICE, Level::HOST].map(|level| state.levels().used(level));
            self.telemetry.trace.counters([Counter::DeviceUsed, Counter::HostUsed], used);
            if let Some(lower) = state.levels().all().nth(2) {
                self.telemetry.trace.counter(Counter::LowerUsed, state.levels().used(lower));
            }
            result
        })
    }

    /// Whether data is lost if the process ends now.
    pub(crate) fn would_lose(&self) -> bool {
        let (drained, handed_over) =
            self.catalog.read(|state| (state.drained(), state.successor().is_handed_over()));
        let inherited = self.succession.has_successor() && handed_over;
        !(drained || self.config.ephemeral || inherited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::Engine;
    use recovery::Process;

    /// Catches counters that are recorded after the lock was released under which their values were read: a
    /// growing value would sometimes go back in the timeline.
    #[test]
    fn counters_stand_in_the_order_of_what_they_count() {
        const THREADS: i32 = 4;
        const CHECKPOINTS: i32 = 5000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timeline");
        let text = format!(
            "mode = async\nephemeral = true\nhost_cache_size = 64M\ntouch_threads = 4\ntrace = {}\n",
            path.display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::single(0), None).unwrap();
        let bytes = vec![7u8; 512];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (engine, bytes) = (&engine, &bytes);
                scope.spawn(move || {
                    for version in 0..CHECKPOINTS {
                        let mut open = engine.begin("x", thread * CHECKPOINTS + version).unwrap();
                        let place = Place::plain(1, bytes.as_ptr(), bytes.len());
                        engine.shared.capturing().capture(&mut open, &[place], Vec::new()).unwrap();
                        engine.shared.capturing().commit(open).unwrap();
                    }
                });
            }
        });
        let host = engine.shared.host_side.buffer.as_ref().unwrap();
        host.want_all();
        while host.touched_bytes() < host.len() {
            std::thread::yield_now();
        }
        drop(engine);
        let text = std::fs::read(path).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
        for counter in ["host used", "host touched"] {
            let mut values: Vec<(f64, u64)> = events
                .iter()
                .filter(|event| event["name"] == counter)
                .map(|e| (e["ts"].as_f64().unwrap(), e["args"]["bytes"].as_u64().unwrap()))
                .collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            assert!(values.len() > 8, "{counter}: {values:?}");
            let back = values.windows(2).find(|pair| pair[0].1 > pair[1].1);
            assert_eq!(back, None, "{counter}");
        }
    }
}
