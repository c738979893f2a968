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
pub struct ElementBlock {
    /// The first one's address.
    pub buf: usize,
    /// The number of elements.
    pub count: i64,
    /// The type of the elements.
    pub datatype: Rc<Datatype>,
}

impl ElementBlock {
    /// Their packed size in bytes; 0 for a negative count, with which the call fails.
    pub fn bytes(&self) -> i64 {
        self.count.max(0).saturating_mul(self.datatype.size)
    }
}

/// The destination of a call.
#[derive(Clone, Debug, Default)]
pub enum CallTarget {
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
    One(ElementBlock),
    /// Several such blocks.
    Many(Rc<[ElementBlock]>),
    /// Memory of an earlier process that was not in a protected region there.
    Lost,
}

impl CallTarget {
    /// Whether it has elements of this type, looked up or not.
    pub fn uses(&self, handle: usize) -> bool {
        match self {
            CallTarget::Plain { datatype, .. } => *datatype == handle,
            _ => self.blocks().iter().any(|block| block.datatype.handle() == handle),
        }
    }

    /// The target with a copy in place of a type that is being freed.
    pub fn with(&self, handle: usize, copy: &Rc<Datatype>) -> CallTarget {
        let datatype = Rc::clone(copy);
        match self {
            CallTarget::Plain { buf, count, datatype: plain } if *plain == handle => {
                CallTarget::One(ElementBlock { buf: *buf, count: *count, datatype })
            }
            CallTarget::One(block) if block.datatype.handle() == handle => {
                CallTarget::One(ElementBlock { datatype, ..block.clone() })
            }
            CallTarget::Many(blocks) => {
                let one = |block: &ElementBlock| match block.datatype.handle() == handle {
                    true => ElementBlock { datatype: Rc::clone(&datatype), ..block.clone() },
                    false => block.clone(),
                };
                CallTarget::Many(blocks.iter().map(one).collect())
            }
            other => other.clone(),
        }
    }

    /// Its blocks, if it is resolved.
    pub fn blocks(&self) -> &[ElementBlock] {
        match self {
            CallTarget::Nothing | CallTarget::Plain { .. } | CallTarget::Lost => &[],
            CallTarget::One(block) => std::slice::from_ref(block),
            CallTarget::Many(blocks) => blocks,
        }
    }

    /// How many bytes are logged: the whole elements received, or all.
    pub fn wanted(&self, received: Option<i64>) -> i64 {
        let all: i64 = self.blocks().iter().map(ElementBlock::bytes).sum();
        match (received, self) {
            (Some(received), CallTarget::One(block)) => all.min(block.datatype.whole(received)),
            (Some(received), _) => all.min(received),
            (None, _) => all,
        }
    }
}
