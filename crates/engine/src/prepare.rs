//! Preparing the host buffer in the background: touching and registering it (HiPC'22, section IV).

use std::time::{Duration, Instant};

use super::guard::CHECK_EVERY;
use super::map::{heard, precedence};
use super::pace::IdleWindow;
use super::shared::Shared;
use catalog::Level;
use config::TouchMeans as Setting;
use errors::Result;
use levels::host_buffer::{Claim, HostBuffer, TouchMethod, TOUCH_UNIT};
use os::node_lock::NodeLock;
use os::precedence::Precedence;
use os::size;
use os::{memory, numa};
use policy::register as registration;
use trace::{Activity, Counter};

/// While memory is short, touching threads check it again after this time.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// Pages beyond the slack go back when nobody has used them for so long.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(1);

/// Touches the wanted pages of the host buffer, and continues when more are wanted. Several threads may do so
/// at once.
pub(crate) fn touch(shared: &Shared) -> Result<()> {
    let host = shared.host_side.host()?;
    let method = method(shared, host);
    loop {
        host.hold(shared.catalog.read(|state| state.levels().used(Level::HOST)));
        // Before a unit is claimed: a claimed unit counts as having its pages.
        if shared.host_side.memory_is_short(TOUCH_UNIT) {
            shared.host_side.pace.all_touched();
            while shared.host_side.memory_is_short(CHECK_EVERY) && host.await_memory(CHECK_AGAIN) {
                give_back(shared, host);
                shared.host_side.limit_again(host);
            }
        }
        let unit = match host.claim() {
            Claim::Unit(unit) => unit,
            Claim::Enough => {
                // In the meantime, flushes need not choose a mode.
                shared.host_side.pace.all_touched();
                if host.await_need(GIVE_BACK_AFTER) {
                    give_back(shared, host);
                }
                continue;
            }
            Claim::Nothing => break,
        };
        if !shared.host_side.pace.may_touch() {
            break;
        }
        let since = Instant::now();
        let bytes = unit.end - unit.start;
        let touched = host.touch(&unit, method);
        shared.host_side.pace.touched(bytes, since);
        if let Err(error) = touched {
            shared.telemetry.degrade(
                "touch",
                format!(
                    "only {} of the host buffer's {} could be touched; the rest is not registered either: {error}",
                    size::show(host.touched_bytes()),
                    size::show(host.len())
                ),
            );
            host.give_up();
            // The kernel has no memory for these pages, so no checkpoint may use them.
            shared.catalog.step(|state| state.growth().shorten(Level::HOST, unit.start));
            break;
        }
        let time = since.elapsed();
        shared.telemetry.metrics.touch.add(bytes, time);
        shared.telemetry.trace.spent(Activity::Touch, since, time, bytes);
        // Several threads touch: the counter must be recorded under the lock that its value is read under.
        host.with_touched(|bytes| shared.telemetry.trace.counter(Counter::HostTouched, bytes));
    }
    shared.host_side.pace.all_touched();
    Ok(())
}

/// Gives back the pages, but for the slack, that no checkpoint has used since the last look, at
/// least [`GIVE_BACK_AFTER`] ago. The room is nobody's meanwhile, a unit at a time.
fn give_back(shared: &Shared, host: &HostBuffer) {
    let Some(mut last) =
        shared.host_side.gave_back.try_lock().filter(|at| at.elapsed() >= GIVE_BACK_AFTER)
    else {
        return;
    };
    *last = Instant::now();
    let held = shared.catalog.step(|state| state.growth().most_used(Level::HOST));
    let mut surplus = host.surplus(held);
    while surplus >= TOUCH_UNIT && !shared.stopping() {
        let find = |free| host.last_idle(free);
        let Some(unit) = shared.catalog.step(|state| state.growth().set_aside(Level::HOST, find))
        else {
            break;
        };
        let given = host.give_back(&unit);
        shared.catalog.step(|state| state.growth().put_back(Level::HOST, &unit));
        match given {
            Ok(true) => surplus = surplus.saturating_sub(unit.end - unit.start),
            Ok(false) => break,
            Err(error) => {
                shared.telemetry.degrade(
                    "give back",
                    format!("unused pages of the host buffer cannot be given back: {error}"),
                );
                break;
            }
        }
    }
    host.with_touched(|bytes| shared.telemetry.trace.counter(Counter::HostTouched, bytes));
}

/// Binds the host buffer to the device's memory node, if there are several nodes.
pub(crate) fn place(shared: &Shared) {
    let (Some(host), Some(side)) = (&shared.host_side.buffer, shared.device_side.attached.get())
    else {
        return;
    };
    let Some(node) = numa::node_of_pci(side.device.bus_id()).filter(|_| numa::node_count() > 1)
    else {
        return;
    };
    match numa::bind_preferred(host.mapping(), 0..host.mapping().len(), node) {
        Ok(()) => log::info!("the host buffer is on memory node {node}, where the device is"),
        Err(error) => shared.telemetry.degrade("numa", error),
    }
}

/// Registers the host buffer, as the key `pin` says.
pub(crate) fn pin(shared: &Shared) -> Result<()> {
    let side = shared.device_side.attached()?;
    side.device.bind()?;
    let host = shared.host_side.host()?;
    let pin = shared.config.pin;
    let mut node_lock = if registration::takes_node_lock(pin) {
        match NodeLock::open() {
            Ok(node_lock) => Some(node_lock),
            Err(error) => {
                shared.telemetry.degrade(
                    "node lock",
                    format!(
                        "the host buffer is registered without taking turns with the other processes of the node: \
                         {error}"
                    ),
                );
                None
            }
        }
    } else {
        None
    };
    let mut precedence = node_lock.as_ref().and_then(|_| precedence(shared));
    if node_lock.is_some() && !shared.host_side.pace.rest(registration::BEGIN_AFTER) {
        return Ok(());
    }
    // How long the next chunk has waited for an idle window, in seconds.
    let mut waited = 0.0;
    loop {
        if !host.registrations().has_next(pin) {
            release(&mut node_lock);
        }
        let Some(chunk) = host.registrations().await_next(pin) else {
            break;
        };
        // A registration stops all copies of the process, so it must not run when a call of the application
        // is due or active. Other processes must not wait for that: the idle window comes before the node
        // lock. If the window has passed by then, the lock is kept only for the next one.
        let held = node_lock.as_ref().is_some_and(NodeLock::is_held);
        let at_most = held.then_some(registration::LONGEST_IDLE_LOCK);
        match await_idle_window(shared, host, chunk, at_most, &mut waited) {
            IdleWindow::Now => {}
            IdleWindow::TooLate => {
                release(&mut node_lock);
                continue;
            }
            IdleWindow::Never => break,
        }
        match &mut node_lock {
            Some(open) if !held => {
                if let Err(error) = acquire(shared, open) {
                    // Not tried again: the holder may keep the lock for ever.
                    shared.telemetry.degrade(
                        "node lock",
                        format!("the host buffer is registered without taking turns with the other processes of the \
                                 node: {error}"),
                    );
                    node_lock = None;
                }
                if shared.stopping() {
                    break;
                }
                continue;
            }
            _ => {}
        }
        if held && shared.device_side.gate.is_closed() {
            // A capture may wait long for the device, and the lock is not held meanwhile.
            release(&mut node_lock);
            shared.device_side.gate.pass();
            continue;
        }
        shared.device_side.gate.pass();
        if let Some(all) = &precedence {
            match heard(shared, all.is_claimed()) {
                Some(false) => {}
                Some(true) => {
                    release(&mut node_lock);
                    if heard(shared, await_mapping(shared, all)).is_none() {
                        precedence = None;
                    }
                    continue;
                }
                // Not tried again, as with the node lock.
                None => precedence = None,
            }
        }
        if !register_one(shared, host, chunk)? {
            break;
        }
        waited = 0.0;
    }
    Ok(())
}

fn release(node_lock: &mut Option<NodeLock>) {
    if let Some(node_lock) = node_lock {
        node_lock.release();
    }
}

fn await_idle_window(
    shared: &Shared,
    host: &HostBuffer,
    chunk: usize,
    at_most: Option<f64>,
    waited: &mut f64,
) -> IdleWindow {
    let bytes = host.chunks().bytes(chunk);
    let before = &shared.telemetry.metrics.register;
    let measured = (before.amount(), before.nanoseconds() as f64 / 1e9);
    let seconds = registration::expected_seconds(bytes.end - bytes.start, measured);
    let span = shared.telemetry.trace.span(Activity::IdleWindow);
    let window = shared.host_side.pace.await_idle_window(seconds, at_most, waited);
    drop(span);
    window
}

/// Waits for the node lock, or for the end of the job.
fn acquire(shared: &Shared, node_lock: &mut NodeLock) -> Result<()> {
    let since = Instant::now();
    let span = shared.telemetry.trace.span(Activity::NodeLock);
    let entered = node_lock.acquire(registration::NODE_LOCK_TIMEOUT, &|| shared.stopping());
    drop(span);
    shared.telemetry.metrics.node_lock.add(0, since.elapsed());
    entered.map(drop)
}

/// Waits until no process of the node maps, or for the end of the job.
fn await_mapping(shared: &Shared, all: &Precedence) -> Result<()> {
    let since = Instant::now();
    let span = shared.telemetry.trace.span(Activity::NodeLock);
    let none = all.await_none(registration::NODE_LOCK_TIMEOUT, &|| shared.stopping());
    drop(span);
    shared.telemetry.metrics.node_lock.add(0, since.elapsed());
    none
}

/// Registers a chunk. False: no more should be tried.
fn register_one(shared: &Shared, host: &HostBuffer, chunk: usize) -> Result<bool> {
    let side = shared.device_side.attached()?;
    let Some(registration) = host.registrations().begin(chunk) else {
        return Ok(true);
    };
    let bytes = host.chunks().bytes(chunk);
    let len = bytes.end - bytes.start;
    let since = Instant::now();
    let mut span = shared.telemetry.trace.span(Activity::Register);
    // SAFETY: no copy uses an unregistered chunk (`lane`); the mapping lives until all chunks are
    // unregistered (`unpin`).
    let result = unsafe { device::register(&side.device, host.address(bytes.start), len) };
    registration.end(result.is_ok());
    shared.host_side.pace.worked();
    match result {
        Ok(()) => {
            shared.telemetry.metrics.register.add(len, since.elapsed());
            span.bytes(len);
            drop(span);
            shared.telemetry.trace.counter(Counter::HostRegistered, host.registrations().bytes());
            Ok(true)
        }
        Err(error) => {
            shared.telemetry.degrade(
                "pin",
                format!(
                    "the host buffer stays unregistered (pin) beyond {} of {}, so transfers are \
                     slower: {error}",
                    size::show(host.registrations().bytes()),
                    size::show(host.len())
                ),
            );
            Ok(false)
        }
    }
}

/// Unregisters the chunks that [`pin`] registered. No transfer may be active.
pub(crate) fn unpin(shared: &Shared) {
    let (Some(host), Some(side)) = (&shared.host_side.buffer, shared.device_side.attached.get())
    else {
        return;
    };
    for chunk in host.registrations().all() {
        // SAFETY: all workers have ended, so no copy uses the memory.
        let result = unsafe {
            device::unregister(&side.device, host.address(host.chunks().bytes(chunk).start))
        };
        if let Err(error) = result {
            log::debug!("{error}");
        }
    }
}

fn method(shared: &Shared, host: &HostBuffer) -> TouchMethod {
    match shared.config.touch_method {
        Setting::Populate => TouchMethod::Populate,
        Setting::Write => TouchMethod::Write(memory::page_size()),
        Setting::Auto => host.touch_method(),
    }
}
