//! A store of two tiers, as the state of the art has it: captures within the device, flushes behind
//! them in the order of captures, fetches ahead of restores. What differs between the baselines is
//! how the memory of the tiers comes to be, which is theirs ([`Memory`]).

mod ledger;
mod room;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{anyhow, bail, ensure, Context, Result};

use self::ledger::{Ledger, Move, Source};
use super::{Approach, Insight};
use crate::bench::cuda::{Address, Buffer, Device, Stream};
use crate::bench::plan::{Hints, Plan};
use crate::bench::results::Hop;

pub use self::ledger::host_bytes;

/// The memory of the tiers, however it came to be.
pub trait Memory: Send + Sync {
    /// The address of the device cache.
    fn device(&self) -> Address;

    /// The address of a byte of the host buffer.
    fn host(&self, offset: u64) -> *mut u8;

    /// Waits until the host buffer may be written up to `end`.
    fn await_host(&self, end: u64) -> Result<()>;

    /// Makes a copy from or to the host buffer while nothing stands in its way, in pieces that the
    /// driver accepts; `copy` is called for each with its offset and its bytes, in order.
    fn in_pieces(
        &self,
        offset: u64,
        bytes: u64,
        copy: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()>;

    /// Ends what goes on in the background.
    fn stop(&self);
}

struct State {
    ledger: Ledger,
    growing: bool,
    failed: Option<String>,
    stopping: bool,
    flushed: Hop,
    fetched: Hop,
}

/// What the application's thread and the workers share.
pub struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    memory: Arc<dyn Memory>,
    device: Device,
}

/// The store.
pub struct Store<'a> {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    stream: &'a Stream,
    buffer: &'a Buffer,
    /// The order of restores that is known without hints; empty once it was told.
    unhinted: Vec<u32>,
    kept: u32,
}

type Locked<'a> = MutexGuard<'a, State>;

impl Shared {
    fn lock(&self) -> Locked<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: Locked<'a>) -> Locked<'a> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and lets all look again.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// The device cache has so many bytes more; `last`: and will have no more.
    pub fn grow(&self, bytes: u64, last: bool) {
        self.change(|state| {
            state.ledger.grow(bytes);
            state.growing = !last;
        });
    }

    /// Something in the background failed: the application's next call says so.
    pub fn fail(&self, error: &anyhow::Error) {
        self.change(|state| {
            state.failed.get_or_insert_with(|| format!("{error:#}")).truncate(4096)
        });
    }

    /// Whether the store is about to end.
    pub fn stopping(&self) -> bool {
        self.lock().stopping
    }
}

/// An error if the background has failed.
fn sound(state: &State) -> Result<()> {
    match &state.failed {
        None => Ok(()),
        Some(why) => Err(anyhow!("in the background: {why}")),
    }
}

impl<'a> Store<'a> {
    /// A store on this memory. Its device cache has no bytes yet: [`Shared::grow`].
    pub fn new(
        plan: &Plan,
        process: u32,
        memory: Arc<dyn Memory>,
        (device, stream, buffer): (&Device, &'a Stream, &'a Buffer),
    ) -> Result<Store<'a>> {
        let has_host = plan.host_cache > 0;
        let hop = |name: &str| Hop { name: name.to_owned(), ..Hop::default() };
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ledger: Ledger::new(has_host),
                growing: true,
                failed: None,
                stopping: false,
                flushed: hop("DtoH"),
                fetched: hop("HtoD"),
            }),
            changed: Condvar::new(),
            memory,
            device: device.clone(),
        });
        let known = plan.hints == Hints::None && plan.order != crate::bench::plan::Order::Random;
        let unhinted = if known { plan.restores(process) } else { Vec::new() };
        let mut store = Store { shared, workers: Vec::new(), stream, buffer, unhinted, kept: 0 };
        if has_host {
            store.spawn("flush", flush)?;
            store.spawn("fetch", fetch)?;
        }
        Ok(store)
    }

    /// Runs `work` in the background until it ends or the store does.
    pub fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Arc<Shared>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let owned = name.to_owned();
        let worker = std::thread::Builder::new().name(format!("bench-{name}")).spawn(move || {
            if let Err(error) = shared.device.bind().and_then(|()| work(&shared)) {
                shared.fail(&error.context(owned));
            }
        });
        self.workers.push(worker.with_context(|| format!("starting the {name} thread"))?);
        Ok(())
    }

    /// What it shares with its workers.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn place(&self, bytes: u64) -> Result<u64> {
        let mut state = self.shared.lock();
        loop {
            sound(&state)?;
            if let Some(at) = state.ledger.place(bytes) {
                return Ok(at);
            }
            if !state.growing && !state.ledger.room_may_come() {
                bail!(
                    "no room for {bytes} bytes in a device cache of {}",
                    state.ledger.device_bytes()
                );
            }
            state = self.shared.wait(state);
        }
    }
}

impl Approach for Store<'_> {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        ensure!(version == self.kept, "version {version} after {} others", self.kept);
        let at = self.place(bytes)?;
        let to = self.shared.memory.device() + at;
        // SAFETY: the place is this version's alone; the buffer has the bytes.
        unsafe { self.stream.copy_on_device(to, self.buffer.address(), bytes) }?;
        self.stream.wait()?;
        self.kept += 1;
        self.shared.change(|state| state.ledger.captured(bytes, at));
        Ok(())
    }

    fn expect(&mut self, versions: &[u32]) -> Result<()> {
        if !versions.is_empty() {
            self.shared.change(|state| state.ledger.expect(versions));
        }
        Ok(())
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        if !self.unhinted.is_empty() {
            let order = std::mem::take(&mut self.unhinted);
            self.expect(&order)?;
        }
        let mut state = self.shared.lock();
        ensure!(state.ledger.has(version), "version {version} was never kept");
        let source = loop {
            sound(&state)?;
            match state.ledger.source(version) {
                Source::Coming => state = self.shared.wait(state),
                source => break source,
            }
        };
        drop(state);
        let to = self.buffer.address();
        match source {
            Source::Device(at) => {
                // SAFETY: the version is complete there and stays until `restored`.
                unsafe { self.stream.copy_on_device(to, self.shared.memory.device() + at, bytes) }?;
                self.stream.wait()?;
            }
            Source::Host(at) => {
                let memory = &self.shared.memory;
                memory.in_pieces(at, bytes, &mut |offset, bytes| {
                    let from = memory.host(offset);
                    // SAFETY: the version is complete there for good; the pieces cover the buffer.
                    unsafe { self.stream.copy_from_host(to + (offset - at), from, bytes) }?;
                    self.stream.wait()
                })?;
            }
            Source::Coming => {}
        }
        self.shared.change(|state| state.ledger.restored(version, source));
        Ok(())
    }

    fn insight(&mut self) -> Result<Insight> {
        let state = self.shared.lock();
        sound(&state)?;
        let hops = [&state.flushed, &state.fetched].into_iter().filter(|hop| hop.bytes > 0);
        Ok(Insight { hops: hops.cloned().collect(), ..Insight::default() })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let result = sound(&self.shared.lock());
        drop(self);
        result
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopping = true);
        self.shared.memory.stop();
        for worker in self.workers.drain(..) {
            // One that panicked has nothing more to say than the panic did.
            let _ = worker.join();
        }
    }
}

/// The next move that `next` finds; none when the store ends.
fn await_move(shared: &Shared, next: impl Fn(&mut Ledger) -> Option<Move>) -> Option<Move> {
    let mut state = shared.lock();
    loop {
        if state.stopping || state.failed.is_some() {
            return None;
        }
        if let Some(found) = next(&mut state.ledger) {
            return Some(found);
        }
        state = shared.wait(state);
    }
}

fn flush(shared: &Arc<Shared>) -> Result<()> {
    let stream = Stream::new(&shared.device)?;
    let memory = &shared.memory;
    while let Some(next) = await_move(shared, Ledger::next_flush) {
        let since = Instant::now();
        memory.await_host(next.host + next.bytes)?;
        let from = memory.device() + next.device;
        memory.in_pieces(next.host, next.bytes, &mut |offset, bytes| {
            // SAFETY: the ledger has given this worker both places until `flush_done`.
            unsafe {
                stream.copy_to_host(memory.host(offset), from + (offset - next.host), bytes)
            }?;
            stream.wait()
        })?;
        shared.change(|state| {
            state.ledger.flush_done(next.version);
            state.flushed.bytes += next.bytes;
            state.flushed.seconds += since.elapsed().as_secs_f64();
        });
    }
    Ok(())
}

fn fetch(shared: &Arc<Shared>) -> Result<()> {
    let stream = Stream::new(&shared.device)?;
    let memory = &shared.memory;
    while let Some(next) = await_move(shared, Ledger::next_fetch) {
        let since = Instant::now();
        let to = memory.device() + next.device;
        memory.in_pieces(next.host, next.bytes, &mut |offset, bytes| {
            // SAFETY: as in `flush`, until `fetch_done`.
            unsafe {
                stream.copy_from_host(to + (offset - next.host), memory.host(offset), bytes)
            }?;
            stream.wait()
        })?;
        shared.change(|state| {
            state.ledger.fetch_done(next.version);
            state.fetched.bytes += next.bytes;
            state.fetched.seconds += since.elapsed().as_secs_f64();
        });
    }
    Ok(())
}
