//! What is logged of a call: its shape, which a replay compares, and its outcome, which a replay
//! gives again.

use std::ffi::c_int;

use super::payload::Payload;
use crate::memory::{self, NoMemory};
use crate::resend::streams::Link;
use crate::status::Status;
use crate::target::Target;

/// An MPI function, by its name.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Call(pub &'static str);

impl PartialEq for Call {
    #[inline]
    fn eq(&self, other: &Call) -> bool {
        // Mostly the very same letters.
        std::ptr::eq(self.0, other.0) || self.0 == other.0
    }
}

/// What a call was asked to do, as far as a replay compares it. What a call does not have is at its
/// default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The function.
    pub call: Call,
    /// The communicator's handle; 0 if the call has none.
    pub comm: usize,
    /// The other process or the root.
    pub peer: Option<c_int>,
    /// The tag.
    pub tag: Option<c_int>,
    /// How many elements, or how many requests.
    pub count: i64,
    /// Bytes of an element when packed; 0 if the call has no elements.
    pub size: i64,
}

impl Shape {
    /// Of a call that has nothing but its name.
    pub fn new(call: Call) -> Shape {
        Shape { call, comm: 0, peer: None, tag: None, count: 0, size: 0 }
    }

    /// Of a call on so many requests.
    pub fn of_requests(call: Call, count: i64) -> Shape {
        Shape { count, ..Shape::new(call) }
    }
}

/// What a call gave.
#[derive(Debug)]
pub struct Outcome {
    /// What it returned.
    pub code: c_int,
    /// The flag, the index, or how many requests it completed, whichever the call has.
    pub number: c_int,
    /// The index beside a flag.
    pub index: c_int,
    /// The communicator that it made.
    pub handle: usize,
    /// The number of what it began, by which later events refer to it; 0 if it began nothing.
    pub began: u64,
    /// The messages that it sent or began to send or to receive, if they can be sent again.
    pub links: Links,
    /// What it received or completed.
    pub items: Items,
}

impl Outcome {
    /// Of a call that gave nothing but its code.
    #[inline]
    pub fn of(code: c_int) -> Outcome {
        Outcome {
            code,
            number: 0,
            index: 0,
            handle: 0,
            began: 0,
            links: Links::None,
            items: Items::None,
        }
    }

    /// Bytes of payload.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.items.as_slice().iter().map(|item| item.payload.len() as u64).sum()
    }

    /// Whether it gave nothing but its numbers.
    #[inline(always)]
    pub(super) fn is_nothing(&self) -> bool {
        matches!((&self.items, &self.links), (Items::None, Links::None))
            && self.began == 0
            && self.handle == 0
    }

    /// Whether both gave nothing, and the same nothing: a poll without success.
    #[inline(always)]
    pub(super) fn is_same_nothing(&self, other: &Outcome) -> bool {
        self.is_nothing()
            && other.is_nothing()
            && (self.code, self.number, self.index) == (other.code, other.number, other.index)
    }
}

/// Messages of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// None of which anything is known.
    #[default]
    None,
    /// That of a call which has one.
    One(Link),
    /// Those of a call on several requests, by their places.
    Many(Box<[Option<Link>]>),
}

impl Links {
    /// With room for those of so many requests.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of(count: usize) -> Result<Links, NoMemory> {
        if count < 2 {
            return Ok(Links::None);
        }
        let mut links = memory::room(count)?;
        links.resize(count, None);
        Ok(Links::Many(links.into_boxed_slice()))
    }

    /// The one at a place.
    pub fn get(&self, nth: usize) -> Option<Link> {
        match self {
            Links::None => None,
            Links::One(link) => Some(*link).filter(|_| nth == 0),
            Links::Many(links) => links.get(nth).copied().flatten(),
        }
    }

    /// Has one at a place that there is room for.
    pub fn set(&mut self, nth: usize, link: Link) {
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

impl From<Option<Link>> for Links {
    fn from(link: Option<Link>) -> Links {
        link.map_or(Links::None, Links::One)
    }
}

/// What a call received or completed, in order.
#[derive(Debug)]
pub enum Items {
    /// Nothing.
    None,
    /// One, which most calls have: without an allocation.
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

/// One request that was completed, or what a call received without one.
#[derive(Debug)]
pub struct Item {
    /// Its place in the call's array.
    pub index: c_int,
    /// What began it, as [`Outcome::began`] has it; 0 if that was outside parts.
    pub began: u64,
    /// Whether the request stays when it is done.
    pub persistent: bool,
    /// The status that MPI gave.
    pub status: Status,
    /// Where the bytes went. A replay that began the request itself writes to where it said.
    pub target: Target,
    /// The bytes received, packed.
    pub payload: Payload,
    /// The message that was received, if it can be sent again.
    pub link: Option<Link>,
    /// How many of the parts that need the event do not need the bytes.
    pub(crate) given_up: u32,
    /// The bytes are there.
    pub(crate) is_kept: bool,
}

impl Item {
    /// Bytes that were received, with a status and where they went.
    #[inline]
    pub fn new(status: Status, target: Target, payload: Payload) -> Item {
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

/// A call in the sequence.
#[derive(Debug)]
pub struct Event {
    /// What the call was asked to do.
    pub shape: Shape,
    /// What it gave.
    pub outcome: Outcome,
    /// Its place in the sequence.
    pub(crate) number: u64,
    /// How many parts need it.
    pub(crate) owners: u32,
    /// How many times in a row the same call gave the same.
    pub(crate) repeats: u32,
}
