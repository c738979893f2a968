//! The workers of a two-level store, which copy between device cache and host buffer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ::trace::Activity;
use anyhow::Result;
use device::{Event, Stream, WaitMode};

use super::ledger::{Move, StoreLedger};
use super::{runs, SharedStore, StoreStep};

/// Copies that a worker has queued at once: while it learns that one is done, the next one runs.
const QUEUED: usize = 3;

/// Flushing or fetching.
struct CopyDirection {
    next: fn(&mut StoreLedger) -> Option<Move>,
    down: bool,
    done: fn(&mut StoreLedger, u32),
    activity: Activity,
    step: StoreStep,
}

/// Copies captured versions to the host buffer, until the store ends.
pub(super) fn flush(shared: &Arc<SharedStore>) -> Result<()> {
    let direction = CopyDirection {
        next: StoreLedger::next_flush,
        down: true,
        done: StoreLedger::flush_done,
        activity: Activity::Flush,
        step: StoreStep::Flush,
    };
    carry(shared, &direction)
}

/// Copies versions that will be restored to the device cache, until the store ends.
pub(super) fn fetch(shared: &Arc<SharedStore>) -> Result<()> {
    let direction = CopyDirection {
        next: StoreLedger::next_fetch,
        down: false,
        done: StoreLedger::fetch_done,
        activity: Activity::Fetch,
        step: StoreStep::Fetch,
    };
    carry(shared, &direction)
}

fn queue(shared: &SharedStore, stream: &Stream, next: &Move, down: bool) -> Result<()> {
    let memory = &shared.memory;
    if down {
        memory.await_host(next.host + next.bytes)?;
    }
    for (at, piece) in runs(&next.device, next.bytes) {
        let (host, device) = (next.host + at, memory.device() + piece.offset);
        memory.in_pieces(host, piece.len, &mut |offset, bytes| {
            let (host, device) = (memory.host(offset), device + (offset - host));
            // SAFETY: the ledger has given this worker both places until the move is done.
            unsafe {
                match down {
                    true => stream.copy_to_host(host, device, bytes)?,
                    false => stream.copy_from_host(device, host, bytes)?,
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Queues copy after copy and tells the ledger of each that is done. Returns when the store ends,
/// and after an error, with no copy under way.
fn carry(shared: &Arc<SharedStore>, direction: &CopyDirection) -> Result<()> {
    let stream = Stream::new(&shared.device)?;
    let carried = carry_on(shared, direction, &stream);
    let ended = stream.synchronize();
    carried?;
    Ok(ended?)
}

fn carry_on(shared: &SharedStore, direction: &CopyDirection, stream: &Stream) -> Result<()> {
    let mut events = (0..QUEUED)
        .map(|_| Event::new(&shared.device, WaitMode::Spin))
        .collect::<errors::Result<Vec<_>>>()?;
    let mut queued: VecDeque<(Move, Event)> = VecDeque::new();
    // Since when the bus has had work of this direction.
    let mut since = Instant::now();
    loop {
        if let Some(event) = events.pop() {
            let next = match await_move(shared, direction.next, queued.is_empty()) {
                NextMove::Move(next) => next,
                NextMove::None => {
                    events.push(event);
                    complete(shared, direction, &mut queued, &mut events, &mut since)?;
                    continue;
                }
                NextMove::End => return Ok(()),
            };
            if queued.is_empty() {
                since = Instant::now();
            }
            queue(shared, stream, &next, direction.down)?;
            event.record(stream)?;
            queued.push_back((next, event));
        } else {
            complete(shared, direction, &mut queued, &mut events, &mut since)?;
        }
    }
}

/// Waits for the oldest copy.
fn complete(
    shared: &SharedStore,
    direction: &CopyDirection,
    queued: &mut VecDeque<(Move, Event)>,
    events: &mut Vec<Event>,
    since: &mut Instant,
) -> Result<()> {
    let Some((done, event)) = queued.pop_front() else { return Ok(()) };
    event.synchronize()?;
    events.push(event);
    let now = Instant::now();
    shared.trace.spent(direction.activity, *since, now.duration_since(*since), done.bytes);
    shared.change(|state| {
        (direction.done)(&mut state.ledger, done.version);
        state.count(direction.step, done.bytes, now.duration_since(*since));
    });
    *since = now;
    Ok(())
}

/// What a worker does next.
enum NextMove {
    Move(Move),
    /// Nothing can be moved now.
    None,
    /// The store ends, or something has failed.
    End,
}

/// The next move that `next` finds; if `wait`, not before there is one.
fn await_move(
    shared: &SharedStore,
    next: fn(&mut StoreLedger) -> Option<Move>,
    wait: bool,
) -> NextMove {
    let mut state = shared.lock();
    loop {
        if state.stopping || state.failed.is_some() {
            return NextMove::End;
        }
        if let Some(found) = next(&mut state.ledger) {
            shared.record(&mut state);
            return NextMove::Move(found);
        }
        if !wait {
            return NextMove::None;
        }
        state = shared.wait(state);
    }
}
