//! The keeper's thread: it takes one order after the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::kept::{Kept, Order};
use super::{lock, wait, Store};
use crate::digest::digest;
use crate::guard;
use crate::log::mapping::{Mapped, Mapping};

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) orders: VecDeque<Arc<Kept>>,
    /// The keeper works on one.
    pub(super) is_busy: bool,
    /// How many it has ended.
    pub(super) ended: u64,
    pub(super) stops: bool,
    pub(super) is_started: bool,
}

/// What both threads see.
pub(super) struct Shared {
    pub(super) store: Box<dyn Store>,
    pub(super) queue: Mutex<Queue>,
    pub(super) work: Condvar,
    pub(super) done: Condvar,
    pub(super) mapped: Mapped,
    /// Bytes that the store has.
    pub(super) stored: AtomicU64,
    /// The last chunk was refused.
    pub(super) is_refused: AtomicBool,
    pub(super) refusal: Mutex<String>,
}

impl Shared {
    pub(super) fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let chunk = loop {
                if let Some(chunk) = queue.orders.pop_front() {
                    break chunk;
                }
                if queue.stops {
                    return;
                }
                queue = wait(&self.work, queue);
            };
            queue.is_busy = true;
            drop(queue);
            // A panic must not keep anybody waiting: the chunk stays where it is.
            if let Err(panic) = guard::caught(|| self.serve(&chunk)) {
                self.refused(panic.text());
                chunk.place().order = None;
            }
            let mut queue = lock(&self.queue);
            queue.is_busy = false;
            queue.ended += 1;
            self.done.notify_all();
        }
    }

    fn serve(&self, chunk: &Arc<Kept>) {
        let (order, memory, stored) = {
            let mut place = chunk.place();
            let order = place.order.take();
            if order.is_some() {
                place.order = Some(Order::Running);
            }
            (order, place.memory.clone(), place.stored)
        };
        match (order, memory) {
            (Some(Order::Take), Some(memory)) => {
                let bytes = memory.slice(0, chunk.len);
                let taken = self.store.take(chunk.number, bytes);
                let digest = taken.as_ref().ok().map(|()| digest(bytes));
                match taken {
                    Ok(()) => self.is_refused.store(false, Ordering::Relaxed),
                    Err(text) => self.refused(text),
                }
                if digest.is_some() {
                    self.stored.fetch_add(chunk.len as u64, Ordering::Relaxed);
                }
                let mut place = chunk.place();
                place.stored = digest;
                place.order = None;
            }
            (Some(Order::Give(into)), _) => {
                // One that cannot be read is tried again by who needs it, and told.
                let read = self.read(chunk, stored, Some(into)).ok().map(Arc::new);
                let mut place = chunk.place();
                place.memory = read;
                place.order = None;
            }
            (Some(_), _) => chunk.place().order = None,
            // It was called off, or is to be forgotten.
            (None, _) => {}
        }
        let mut place = chunk.place();
        if place.is_dead && place.stored.take().is_some() {
            drop(place);
            self.let_go(chunk);
        }
    }

    /// Has the store forget what it has of a chunk.
    pub(super) fn let_go(&self, chunk: &Kept) {
        // A file that stays goes at the end of the job.
        let _ = self.store.forget(chunk.number);
        self.stored.fetch_sub(chunk.len as u64, Ordering::Relaxed);
    }

    fn refused(&self, text: String) {
        *lock(&self.refusal) = text;
        self.is_refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn read(
        &self,
        chunk: &Kept,
        stored: Option<u64>,
        into: Option<Mapping>,
    ) -> Result<Mapping, String> {
        let number = chunk.number;
        let stored = stored.ok_or_else(|| format!("chunk {number} of the log is nowhere"))?;
        let mapping = into.or_else(|| Mapping::map(chunk.room, &self.mapped));
        let mut mapping =
            mapping.ok_or_else(|| format!("there is no memory for chunk {number} of the log"))?;
        let bytes = &mut mapping.all_mut()[..chunk.len];
        self.store.give(number, bytes)?;
        match digest(bytes) == stored {
            true => Ok(mapping),
            false => {
                Err(format!("chunk {number} of the log is not what was stored: it is damaged"))
            }
        }
    }
}
