//! Messages that were probed for (`MPI_Mprobe`) and not received yet, by handle, and the handles that
//! replays return for them.
//!
//! Only the functions that translate handles for Fortran get a replay's handle as an argument. Where
//! handles are pointers, those functions read a number at some offset of the object, and store the
//! pointer if the number is `MPI_UNDEFINED`. So all numbers in the object have that value.

use std::collections::HashMap;
use std::ffi::c_int;

use ::mpi::Abi;
use message_log_core::memory::{self, NoMemory};

use crate::mpi::MpiProperties;

/// The numbers in an object: more than any library's message has.
const BLOCK: usize = 128;

/// A probed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probed {
    /// The number of the probe, as in [`CallOutcome::began`](message_log_core::log::CallOutcome::began).
    pub began: u64,
    /// Its source.
    pub source: c_int,
    /// Its tag.
    pub tag: c_int,
    /// The instance whose replay has returned it; `None`: MPI has returned it.
    pub replayed: Option<u64>,
}

/// A handle that a replay returns.
#[derive(Debug)]
enum ReplayedHandle {
    /// A number that is no handle of MPI's.
    Number(usize),
    /// The address of this object.
    Block(Box<[c_int; BLOCK]>),
}

impl ReplayedHandle {
    fn handle(&self) -> usize {
        match self {
            ReplayedHandle::Number(number) => *number,
            ReplayedHandle::Block(block) => block.as_ptr() as usize,
        }
    }
}

/// All probed messages.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// Messages of probes inside parts, and of replays.
    known: HashMap<usize, Probed>,
    /// Handles of replays. They are never freed, as MPI may have stored them.
    own: Vec<ReplayedHandle>,
    /// The unused handles.
    idle: Vec<usize>,
}

impl Messages {
    /// Reserves room for one more message of MPI's.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        Ok(self.known.try_reserve(1)?)
    }

    /// Adds a message of MPI's; there is [room](Self::reserve) for it.
    pub(crate) fn probed(&mut self, handle: usize, message: Probed) {
        self.known.insert(handle, message);
    }

    /// Adds a message of a replay; returns its handle.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn add_replayed(
        &mut self,
        mpi: &MpiProperties,
        message: Probed,
    ) -> Result<usize, NoMemory> {
        self.reserve()?;
        if self.idle.is_empty() {
            self.make(mpi)?;
        }
        let handle = self.idle.pop().ok_or(NoMemory)?;
        self.known.insert(handle, message);
        Ok(handle)
    }

    fn make(&mut self, mpi: &MpiProperties) -> Result<(), NoMemory> {
        self.own.try_reserve(1)?;
        // With capacity for all, so that none is ever lost.
        self.idle.try_reserve(self.own.len() + 1)?;
        let own = match mpi.abi {
            // Kinds of handles are encoded in their upper bits.
            Abi::Mpich => ReplayedHandle::Number(self.own.len() + 1),
            Abi::OpenMpi | Abi::Standard => {
                ReplayedHandle::Block(memory::boxed([mpi.numbers.undefined; BLOCK])?)
            }
        };
        self.idle.push(own.handle());
        self.own.push(own);
        Ok(())
    }

    /// The message with this handle.
    pub(crate) fn get(&self, handle: usize) -> Option<Probed> {
        self.known.get(&handle).copied()
    }

    /// Removes the received message with this handle.
    pub(crate) fn take(&mut self, handle: usize) -> Option<Probed> {
        if self.known.is_empty() {
            return None;
        }
        let message = self.known.remove(&handle)?;
        if message.replayed.is_some() {
            self.idle.push(handle);
        }
        Some(message)
    }

    /// Whether this is a handle of a replay, used or not.
    pub(crate) fn is_own(&self, handle: usize) -> bool {
        self.own.iter().any(|own| own.handle() == handle)
    }

    /// Whether a message is left that a replay has returned, or a probe with a higher number than this.
    pub(crate) fn is_any_since(&self, began: u64) -> bool {
        self.known.values().any(|message| message.replayed.is_some() || message.began > began)
    }

    /// The replay of this instance has ended: its messages are never received.
    pub(crate) fn replay_ended(&mut self, number: u64) {
        let idle = &mut self.idle;
        self.known.retain(|handle, message| {
            let is_over = message.replayed == Some(number);
            if is_over {
                idle.push(*handle);
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::tests::mpi;

    fn message(began: u64, replayed: Option<u64>) -> Probed {
        Probed { began, source: 1, tag: 2, replayed }
    }

    /// Catches two messages with one handle, a message that survives its replay, and a handle per
    /// message in a long run.
    #[test]
    fn handles_are_told_apart_and_used_again() {
        for abi in [Abi::Mpich, Abi::OpenMpi] {
            let (mpi, mut messages) = (MpiProperties { abi, ..mpi() }, Messages::default());
            let add = |messages: &mut Messages, began| {
                messages.add_replayed(&mpi, message(began, Some(7))).unwrap()
            };
            let handles = [1, 2].map(|began| add(&mut messages, began));
            assert_ne!(handles[0], handles[1]);
            assert_eq!(messages.get(handles[0]), Some(message(1, Some(7))));
            assert_eq!(messages.take(handles[0]), Some(message(1, Some(7))));
            assert_eq!((messages.take(handles[0]), add(&mut messages, 3)), (None, handles[0]));
            messages.probed(1 << 40, message(4, None));
            assert!(handles.iter().all(|own| messages.is_own(*own)) && !messages.is_own(1 << 40));
            messages.replay_ended(7);
            assert_eq!((messages.get(handles[1]), messages.idle.len()), (None, 2));
            assert!(messages.is_any_since(3) && !messages.is_any_since(4));
            assert_eq!(messages.take(1 << 40), Some(message(4, None)));
            assert_eq!((messages.idle.len(), messages.own.len()), (2, 2));
        }
    }
}
