//! Where the bytes that a call receives go in the application's memory.

use std::rc::Rc;

use crate::log::{Arena, Payload};
use crate::mpi::Mpi;
use crate::types::{Datatype, Types};

/// Consecutive elements of one type.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The first one's address.
    pub buf: usize,
    /// The number of elements.
    pub count: i64,
    /// The type of the elements.
    pub datatype: Rc<Datatype>,
}

impl Block {
    /// Their packed size in bytes; 0 for a negative count, with which the call fails.
    pub(crate) fn bytes(&self) -> i64 {
        self.count.max(0).saturating_mul(self.datatype.size)
    }
}

/// The destination of a call.
#[derive(Clone, Debug, Default)]
pub(crate) enum Target {
    /// Receives nothing.
    #[default]
    Nothing,
    /// Elements of a type that was not looked up yet.
    Plain {
        /// The first one's address.
        buf: usize,
        /// The number of elements.
        count: i64,
        /// The type's handle.
        datatype: usize,
    },
    /// Elements of one type.
    One(Block),
    /// Several such blocks.
    Many(Rc<[Block]>),
    /// Memory of an earlier process that was not in a protected region there.
    Lost,
}

impl Target {
    /// The target with looked-up types, which must still exist.
    pub(crate) fn resolved(&self, types: &mut Types) -> Target {
        match self {
            Target::Plain { buf, count, datatype } => {
                Target::One(Block { buf: *buf, count: *count, datatype: types.get(*datatype) })
            }
            other => other.clone(),
        }
    }

    /// Whether it has elements of this type, looked up or not.
    pub(crate) fn uses(&self, handle: usize) -> bool {
        match self {
            Target::Plain { datatype, .. } => *datatype == handle,
            _ => self.blocks().iter().any(|block| block.datatype.handle() == handle),
        }
    }

    /// The target with a copy in place of a type that is being freed.
    pub(crate) fn with(&self, handle: usize, copy: &Rc<Datatype>) -> Target {
        let datatype = Rc::clone(copy);
        match self {
            Target::Plain { buf, count, datatype: plain } if *plain == handle => {
                Target::One(Block { buf: *buf, count: *count, datatype })
            }
            Target::One(block) if block.datatype.handle() == handle => {
                Target::One(Block { datatype, ..block.clone() })
            }
            Target::Many(blocks) => {
                let one = |block: &Block| match block.datatype.handle() == handle {
                    true => Block { datatype: Rc::clone(&datatype), ..block.clone() },
                    false => block.clone(),
                };
                Target::Many(blocks.iter().map(one).collect())
            }
            other => other.clone(),
        }
    }

    /// Its blocks, if it is resolved.
    pub(crate) fn blocks(&self) -> &[Block] {
        match self {
            Target::Nothing | Target::Plain { .. } | Target::Lost => &[],
            Target::One(block) => std::slice::from_ref(block),
            Target::Many(blocks) => blocks,
        }
    }

    /// How many bytes are logged: the whole elements received, or all.
    pub(crate) fn wanted(&self, received: Option<i64>) -> i64 {
        let all: i64 = self.blocks().iter().map(Block::bytes).sum();
        match (received, self) {
            (Some(received), Target::One(block)) => all.min(block.datatype.whole(received)),
            (Some(received), _) => all.min(received),
            (None, _) => all,
        }
    }

    /// Packs its bytes into the log; for a message, only the received ones.
    ///
    /// # Errors
    /// Out of memory, or the memory cannot be read.
    ///
    /// # Safety
    /// The target is resolved, and was passed by the application to a call that MPI has completed.
    pub(crate) unsafe fn pack(
        &self,
        mpi: &Mpi,
        arena: &mut Arena,
        received: Option<i64>,
    ) -> Result<Payload, String> {
        let wanted = self.wanted(received);
        let len = usize::try_from(wanted)
            .map_err(|_| format!("there is no memory to log {wanted} bytes that were received"))?;
        // SAFETY: by the caller's promise.
        arena.keep(len, |to| unsafe { self.pack_into(mpi, to) })
    }

    /// Packs as many of its bytes as there is room for.
    ///
    /// # Errors
    /// The memory cannot be read.
    ///
    /// # Safety
    /// The target is resolved, and the application's memory.
    pub(crate) unsafe fn pack_into(&self, mpi: &Mpi, mut rest: &mut [u8]) -> Result<(), String> {
        for block in self.blocks() {
            let len = rest.len().min(block.bytes() as usize);
            let (bytes, behind) = rest.split_at_mut(len);
            // SAFETY: by the caller's promise.
            unsafe { block.datatype.pack(mpi, block.buf, bytes) }?;
            rest = behind;
        }
        Ok(())
    }

    /// Unpacks logged bytes.
    ///
    /// # Errors
    /// The bytes exceed the target, and nothing is written; or it cannot be written.
    ///
    /// # Safety
    /// The target is resolved, and was passed by the application to a call whose result MPI would write
    /// there.
    pub(crate) unsafe fn unpack(&self, mpi: &Mpi, payload: &[u8]) -> Result<(), String> {
        if payload.len() as i64 > self.wanted(None) {
            let len = payload.len();
            return Err(match self {
                Target::Lost => format!(
                    "{len} bytes were received by a request that was begun before the part, into \
                     memory that was not protected when the checkpoint was taken from which this \
                     process goes on"
                ),
                _ => format!("{len} bytes were received, and there is room for less"),
            });
        }
        let mut rest = payload;
        for block in self.blocks() {
            let (bytes, behind) = rest.split_at(rest.len().min(block.bytes() as usize));
            // SAFETY: by the caller's promise.
            unsafe { block.datatype.unpack(mpi, bytes, block.buf) }?;
            rest = behind;
        }
        Ok(())
    }
}
