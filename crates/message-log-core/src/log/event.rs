//! A logged call: its shape, which a replay compares, and its outcome, which a replay returns.

use std::ffi::c_int;

use super::payload::Payload;
use crate::memory::{self, NoMemory};
use crate::resend::streams::MessageLink;
use crate::status::StatusBytes;
use crate::target::CallTarget;

/// An MPI function, by its name.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Call(pub &'static str);

impl PartialEq for Call {
    #[inline]
    fn eq(&self, other: &Call) -> bool {
        // Usually the same string constant.
        std::ptr::eq(self.0, other.0) || self.0 == other.0
    }
}

/// The arguments of a call that a replay compares; those that a call lacks have defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// The function.
    pub call: Call,
    /// The communicator's handle; 0 if the call has none.
    pub comm: usize,
    /// The other process, or the root.
    pub peer: Option<c_int>,
    /// The tag.
    pub tag: Option<c_int>,
    /// The number of elements, or of requests.
    pub count: i64,
    /// Packed size of an element in bytes; 0 if the call has no elements.
    pub size: i64,
    /// A hash of what the call sends; 0: it is not compared.
    pub sum: u64,
}

impl CallShape {
    /// For a call that has only a name.
    pub fn new(call: Call) -> CallShape {
        CallShape { call, comm: 0, peer: None, tag: None, count: 0, size: 0, sum: 0 }
    }

    /// Whether a replay's call is this one.
    #[inline]
    pub fn is(&self, replayed: &CallShape) -> bool {
        let compares = self.sum != 0 && replayed.sum != 0;
        CallShape { sum: if compares { self.sum } else { replayed.sum }, ..*self } == *replayed
    }

    /// For a call on `count` requests.
    pub fn of_requests(call: Call, count: i64) -> CallShape {
        CallShape { count, ..CallShape::new(call) }
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub struct CallOutcome {
    /// Its return code.
    pub code: c_int,
    /// The flag, the index, or the number of completed requests.
    pub number: c_int,
    /// The index beside a flag.
    pub index: c_int,
    /// The communicator that it made.
    pub handle: usize,
    /// The number of the operation that it began, by which later events refer to it; 0: none.
    pub began: u64,
    /// Its messages, if they can be sent again.
    pub links: Links,
    /// The data that the call received, and the requests that it completed.
    pub items: Items,
}

impl CallOutcome {
    /// For a call that returned only its code.
    #[inline]
    pub fn of(code: c_int) -> CallOutcome {
        CallOutcome {
            code,
            number: 0,
            index: 0,
            handle: 0,
            began: 0,
            links: Links::None,
            items: Items::None,
        }
    }

    /// Bytes of its payloads.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.items.as_slice().iter().map(|item| item.payload.len() as u64).sum()
    }

    /// Whether it has only numbers.
    #[inline(always)]
    pub(super) fn is_nothing(&self) -> bool {
        matches!((&self.items, &self.links), (Items::None, Links::None))
            && self.began == 0
            && self.handle == 0
    }

    /// Whether both have only numbers, and the same ones: an unsuccessful poll.
    #[inline(always)]
    pub(super) fn is_same_nothing(&self, other: &CallOutcome) -> bool {
        self.is_nothing()
            && other.is_nothing()
            && (self.code, self.number, self.index) == (other.code, other.number, other.index)
    }
}

/// Messages of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Unknown.
    #[default]
    None,
    /// For a call with one message.
    One(MessageLink),
    /// For a call on several requests, by index.
    Many(Box<[Option<MessageLink>]>),
}

impl Links {
    /// With room for this many requests.
    ///
    /// # Errors
    /// Out of memory.
    pub fn of(count: usize) -> Result<Links, NoMemory> {
        if count < 2 {
            return Ok(Links::None);
        }
        let mut links = memory::room(count)?;
        links.resize(count, None);
        Ok(Links::Many(links.into_boxed_slice()))
    }

    /// The message at an index.
    pub fn get(&self, nth: usize) -> Option<MessageLink> {
        match self {
            Links::None => None,
            Links::One(link) => Some(*link).filter(|_| nth == 0),
            Links::Many(links) => links.get(nth).copied().flatten(),
        }
    }

    /// Sets the message at an index for which there is room.
    pub fn set(&mut self, nth: usize, link: MessageLink) {
        match self {
            Links::Many(links) => {
                if let Some(place) = links.get_mut(nth) {
                    *place = Some(link);
                }
            }
            Links::None | Links::One(_) if nth == 0 => *self = Links::One(link),
            Links::None | Links::One(_) => {}
        }
    }
}

impl From<Option<MessageLink>> for Links {
    #[inline]
    fn from(link: Option<MessageLink>) -> Links {
        link.map_or(Links::None, Links::One)
    }
}

/// The data that a call received, and the requests that it completed, in order.
#[derive(Debug)]
pub enum Items {
    /// Nothing.
    None,
    /// One item, as in most calls: without an allocation.
    One(Item),
    /// Several.
    Many(Box<[Item]>),
}

impl Items {
    /// All of them.
    #[inline]
    pub fn as_slice(&self) -> &[Item] {
        match self {
            Items::None => &[],
            Items::One(item) => std::slice::from_ref(item),
            Items::Many(items) => items,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Item] {
        match self {
            Items::None => &mut [],
            Items::One(item) => std::slice::from_mut(item),
            Items::Many(items) => items,
        }
    }
}

/// A completed request, or what a call received without one.
#[derive(Debug)]
pub struct Item {
    /// Its index in the call's array.
    pub index: c_int,
    /// The operation that began it, as in [`CallOutcome::began`]; 0: outside parts.
    pub began: u64,
    /// Whether the request is persistent.
    pub persistent: bool,
    /// The status that MPI gave.
    pub status: StatusBytes,
    /// Where the bytes went. A replay that began the request writes to its own buffer.
    pub target: CallTarget,
    /// The bytes received, packed.
    pub payload: Payload,
    /// The message that was received, if it can be sent again.
    pub link: Option<MessageLink>,
    /// How many owners of the event do not need the bytes.
    pub(crate) given_up: u32,
    /// Whether the bytes are there.
    pub(crate) is_kept: bool,
}

impl Item {
    /// Received bytes with a status and their target.
    #[inline]
    pub fn new(status: StatusBytes, target: CallTarget, payload: Payload) -> Item {
        Item {
            index: 0,
            began: 0,
            persistent: false,
            status,
            target,
            payload,
            link: None,
            given_up: 0,
            is_kept: true,
        }
    }
}

/// An event in the sequence.
#[derive(Debug)]
pub struct LogEvent {
    /// The call's arguments.
    pub shape: CallShape,
    /// The call's outcome.
    pub outcome: CallOutcome,
    /// Its number in the sequence.
    pub(crate) number: u64,
    /// The number of parts that need it.
    pub(crate) owners: u32,
    /// How many times in a row the same call had the same outcome.
    pub(crate) repeats: u32,
}
