//! Where the bytes that a call receives lie in the application's memory.

use std::rc::Rc;

use crate::log::{Arena, Payload};
use crate::mpi::Mpi;
use crate::types::{Datatype, Types};

/// Elements of one type, one behind another.
#[derive(Clone, Debug)]
pub struct Block {
    /// The first one's address.
    pub buf: usize,
    /// How many.
    pub count: i64,
    /// Their type.
    pub datatype: Rc<Datatype>,
}

impl Block {
    /// Its bytes when packed: none of a count below zero, whose call fails.
    pub fn bytes(&self) -> i64 {
        self.count.max(0).saturating_mul(self.datatype.size)
    }
}

/// Where a call writes.
#[derive(Clone, Debug, Default)]
pub enum Target {
    /// It receives nothing.
    #[default]
    Nothing,
    /// Elements of a type whose handle is all that was looked at.
    Plain {
        /// The first one's address.
        buf: usize,
        /// How many.
        count: i64,
        /// The type's handle.
        datatype: usize,
    },
    /// Elements of one type.
    One(Block),
    /// Several such blocks.
    Many(Rc<[Block]>),
    /// Memory of another process, of which this one goes on, that was not protected there.
    Lost,
}

impl Target {
    /// The same with types looked at, which have to be there still.
    pub fn resolved(&self, types: &mut Types) -> Target {
        match self {
            Target::Plain { buf, count, datatype } => {
                Target::One(Block { buf: *buf, count: *count, datatype: types.get(*datatype) })
            }
            other => other.clone(),
        }
    }

    /// Whether it has elements of this type, or says so.
    pub fn uses(&self, handle: usize) -> bool {
        match self {
            Target::Plain { datatype, .. } => *datatype == handle,
            _ => self.blocks().iter().any(|block| block.datatype.handle() == handle),
        }
    }

    /// The same with another type in the place of one that the application frees.
    pub fn with(&self, handle: usize, copy: &Rc<Datatype>) -> Target {
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

    /// Its blocks, of what is resolved.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Target::Nothing | Target::Plain { .. } | Target::Lost => &[],
            Target::One(block) => std::slice::from_ref(block),
            Target::Many(blocks) => blocks,
        }
    }

    /// How many bytes are taken: the whole elements of those received, or all.
    pub fn wanted(&self, received: Option<i64>) -> i64 {
        let all: i64 = self.blocks().iter().map(Block::bytes).sum();
        match (received, self) {
            (Some(received), Target::One(block)) => all.min(block.datatype.whole(received)),
            (Some(received), _) => all.min(received),
            (None, _) => all,
        }
    }

    /// Packs what lies there into the log; of what a message may have had room for, only what was
    /// received.
    ///
    /// # Errors
    /// There is no memory, or what lies there cannot be read.
    ///
    /// # Safety
    /// The target is resolved and is what the application passed to a call that MPI has completed.
    pub unsafe fn pack(
        &self,
        mpi: &Mpi,
        arena: &mut Arena,
        received: Option<i64>,
    ) -> Result<Payload, String> {
        let wanted = self.wanted(received);
        let len = usize::try_from(wanted)
            .map_err(|_| format!("there is no memory to log {wanted} bytes that were received"))?;
        arena.keep(len, |mut rest| {
            for block in self.blocks() {
                let len = rest.len().min(block.bytes() as usize);
                let (bytes, behind) = rest.split_at_mut(len);
                // SAFETY: by the caller's promise.
                unsafe { block.datatype.pack(mpi, block.buf, bytes) }?;
                rest = behind;
            }
            Ok(())
        })
    }

    /// Unpacks what the log has of it.
    ///
    /// # Errors
    /// That is more than there is room for, and nothing is done; or it cannot be written there.
    ///
    /// # Safety
    /// The target is resolved and is what the application passed to a call of which MPI would write
    /// the result there.
    pub unsafe fn unpack(&self, mpi: &Mpi, payload: &[u8]) -> Result<(), String> {
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
