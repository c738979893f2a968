//! Where the bytes that a call receives go in the application's memory.

use std::fmt;
use std::rc::Rc;

/// The properties of a type.
#[derive(Debug)]
pub struct Datatype {
    /// Its handle.
    pub handle: usize,
    /// Packed size of an element in bytes.
    pub size: i64,
    /// Extent of an element in bytes.
    pub extent: i64,
    /// Lower bound: bytes from an element's address to its first byte.
    pub lb: i64,
    /// Whether elements are contiguous.
    pub is_dense: bool,
    /// A copy of the type that this value owns, and that is freed with it.
    pub owned: Option<Box<dyn fmt::Debug>>,
}

impl Datatype {
    /// Its handle.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// Packed bytes of the whole elements that cover at least `received` bytes.
    #[inline]
    pub fn whole(&self, received: i64) -> i64 {
        match self.size {
            0 => 0,
            size => (received + size - 1) / size * size,
        }
    }
}

/// Consecutive elements of one type.
#[derive(Clone, Debug)]
pub struct Block {
    /// The first one's address.
    pub buf: usize,
    /// The number of elements.
    pub count: i64,
    /// The type of the elements.
    pub datatype: Rc<Datatype>,
}

impl Block {
    /// Their packed size in bytes; 0 for a negative count, with which the call fails.
    pub fn bytes(&self) -> i64 {
        self.count.max(0).saturating_mul(self.datatype.size)
    }
}

/// The destination of a call.
#[derive(Clone, Debug, Default)]
pub enum Target {
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
    /// Whether it has elements of this type, looked up or not.
    pub fn uses(&self, handle: usize) -> bool {
        match self {
            Target::Plain { datatype, .. } => *datatype == handle,
            _ => self.blocks().iter().any(|block| block.datatype.handle() == handle),
        }
    }

    /// The target with a copy in place of a type that is being freed.
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

    /// Its blocks, if it is resolved.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Target::Nothing | Target::Plain { .. } | Target::Lost => &[],
            Target::One(block) => std::slice::from_ref(block),
            Target::Many(blocks) => blocks,
        }
    }

    /// How many bytes are logged: the whole elements received, or all.
    pub fn wanted(&self, received: Option<i64>) -> i64 {
        let all: i64 = self.blocks().iter().map(Block::bytes).sum();
        match (received, self) {
            (Some(received), Target::One(block)) => all.min(block.datatype.whole(received)),
            (Some(received), _) => all.min(received),
            (None, _) => all,
        }
    }
}
