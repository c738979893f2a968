//! Messages that were probed for (`MPI_Mprobe`) and are not received yet, by their handles, and the
//! handles that replays give out for them.
//!
//! No function of MPI's takes a handle of a replay but those that translate handles for Fortran. Where
//! handles are pointers these read a number at a place of their own in what the pointer is to, and note
//! the pointer there if the number is that of none, `MPI_UNDEFINED`: so all of it says that.

use std::collections::HashMap;
use std::ffi::c_int;

use mpi_abi::Abi;

use crate::memory::{self, NoMemory};
use crate::mpi::Mpi;

/// Numbers of a block, more than any library's messages have.
const BLOCK: usize = 128;

/// A message that was probed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The number of the probe, as [`Outcome::began`](crate::log::Outcome::began) has it.
    pub began: u64,
    /// Where it is from.
    pub source: c_int,
    /// Its tag.
    pub tag: c_int,
    /// The instance whose replay has given it; `None`: MPI has.
    pub replayed: Option<u64>,
}

/// What a handle of a replay is.
#[derive(Debug)]
enum Own {
    /// A number that is no handle of the library's.
    Number(usize),
    /// The address of this.
    Block(Box<[c_int; BLOCK]>),
}

impl Own {
    fn handle(&self) -> usize {
        match self {
            Own::Number(number) => *number,
            Own::Block(block) => block.as_ptr() as usize,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Messages {
    /// Those of probes inside parts, and of their replays.
    known: HashMap<usize, Probed>,
    /// Handles of replays. They stay, as MPI may have noted them.
    own: Vec<Own>,
    /// Those of them that are of no message.
    idle: Vec<usize>,
}

impl Messages {
    /// Room for one more that MPI is about to give.
    ///
    /// # Errors
    /// There is no memory.
    pub fn reserve(&mut self) -> Result<(), NoMemory> {
        Ok(self.known.try_reserve(1)?)
    }

    /// MPI has given a message, for which there is [room](Self::reserve).
    pub fn probed(&mut self, handle: usize, message: Probed) {
        self.known.insert(handle, message);
    }

    /// A replay gives a message: its handle.
    ///
    /// # Errors
    /// There is no memory.
    pub fn give(&mut self, mpi: &Mpi, message: Probed) -> Result<usize, NoMemory> {
        self.reserve()?;
        if self.idle.is_empty() {
            self.make(mpi)?;
        }
        let handle = self.idle.pop().ok_or(NoMemory)?;
        self.known.insert(handle, message);
        Ok(handle)
    }

    fn make(&mut self, mpi: &Mpi) -> Result<(), NoMemory> {
        self.own.try_reserve(1)?;
        // For all there are, so that none is ever lost.
        self.idle.try_reserve(self.own.len() + 1)?;
        let own = match mpi.abi {
            // Kinds of handles are in their upper bits.
            Abi::Mpich => Own::Number(self.own.len() + 1),
            Abi::OpenMpi | Abi::Standard => {
                Own::Block(memory::boxed([mpi.numbers.undefined; BLOCK])?)
            }
        };
        self.idle.push(own.handle());
        self.own.push(own);
        Ok(())
    }

    /// The message with this handle.
    pub fn get(&self, handle: usize) -> Option<Probed> {
        self.known.get(&handle).copied()
    }

    /// The message with this handle is received.
    pub fn take(&mut self, handle: usize) -> Option<Probed> {
        if self.known.is_empty() {
            return None;
        }
        let message = self.known.remove(&handle)?;
        if message.replayed.is_some() {
            self.idle.push(handle);
        }
        Some(message)
    }

    /// Whether a replay has given this handle, at any time.
    pub fn is_own(&self, handle: usize) -> bool {
        self.own.iter().any(|own| own.handle() == handle)
    }

    /// Whether one is not received that a replay has given, or a probe with a higher number than this.
    pub fn is_any_since(&self, began: u64) -> bool {
        self.known.values().any(|message| message.replayed.is_some() || message.began > began)
    }

    /// The replay of the instance with this number has ended: nobody receives what it has given.
    pub fn replay_ended(&mut self, number: u64) {
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
    use crate::state::tests::mpi;

    fn message(began: u64, replayed: Option<u64>) -> Probed {
        Probed { began, source: 1, tag: 2, replayed }
    }

    /// Catches two messages with one handle, one that stays when its replay has ended, and a handle for
    /// each message of a long run.
    #[test]
    fn handles_are_told_apart_and_used_again() {
        for abi in [Abi::Mpich, Abi::OpenMpi] {
            let (mpi, mut messages) = (Mpi { abi, ..mpi() }, Messages::default());
            let give = |messages: &mut Messages, began| {
                messages.give(&mpi, message(began, Some(7))).unwrap()
            };
            let handles = [1, 2].map(|began| give(&mut messages, began));
            assert_ne!(handles[0], handles[1]);
            assert_eq!(messages.get(handles[0]), Some(message(1, Some(7))));
            assert_eq!(messages.take(handles[0]), Some(message(1, Some(7))));
            assert_eq!((messages.take(handles[0]), give(&mut messages, 3)), (None, handles[0]));
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
