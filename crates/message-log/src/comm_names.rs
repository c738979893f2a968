//! Descriptions of communicators for error messages, as a handle means nothing to the reader.
//!
//! The origin of a communicator is stored when it is made; the text is made when it is needed.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, CStr};
use std::rc::Rc;

use message_log_core::log::Call;
use message_log_core::memory::NoMemory;

use crate::mpi::MpiProperties;
use crate::pmpi;

/// How many ancestors are described before a number is given instead: some programs make each
/// communicator from the previous one.
const DEPTH: u32 = 3;

/// The parent of a communicator.
#[derive(Clone, Debug)]
enum Parent {
    /// A predefined or unknown handle.
    Handle(usize),
    /// A communicator with this origin.
    Made(Rc<NameOrigin>),
    /// The communicator with this number, counting all that the program has made.
    Number(u64),
}

/// The origin of a communicator.
#[derive(Debug)]
struct NameOrigin {
    /// The call.
    call: Call,
    /// The ordinal of the call on this parent.
    nth: u64,
    parent: Parent,
    /// Its number, counting all that the program has made.
    number: u64,
    depth: u32,
}

#[derive(Debug, Default)]
struct KnownCommunicator {
    /// `None`: predefined, or made by an unknown call.
    origin: Option<Rc<NameOrigin>>,
    /// Whether it represents several communicators.
    is_shared: bool,
    /// How often each call has made a communicator from it.
    calls: Vec<(Call, u64)>,
}

/// The communicators that the application has made, and their parents.
#[derive(Debug, Default)]
pub(crate) struct CommunicatorNames {
    known: HashMap<usize, KnownCommunicator>,
    made: u64,
}

impl CommunicatorNames {
    /// Reserves room for a communicator and its parent.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        Ok(self.known.try_reserve(2)?)
    }

    /// Adds a communicator that a call has made from another. It is `MPI_COMM_NULL` on processes outside it.
    pub(crate) fn made(&mut self, mpi: &MpiProperties, call: Call, parent: usize, handle: usize) {
        self.made += 1;
        let of = self.known.entry(parent).or_default();
        let nth = match of.calls.iter_mut().find(|(other, _)| *other == call) {
            Some((_, nth)) => {
                *nth += 1;
                *nth
            }
            None => {
                of.calls.push((call, 1));
                1
            }
        };
        let (parent, depth) = match &of.origin {
            None => (Parent::Handle(parent), 1),
            Some(origin) if origin.depth < DEPTH => {
                (Parent::Made(Rc::clone(origin)), origin.depth + 1)
            }
            Some(origin) => (Parent::Number(origin.number), 1),
        };
        if handle != mpi.comm_null {
            let origin = Rc::new(NameOrigin { call, nth, parent, number: self.made, depth });
            self.known.insert(
                handle,
                KnownCommunicator { origin: Some(origin), ..KnownCommunicator::default() },
            );
        }
    }

    /// The communicator represents several with the same processes.
    pub(crate) fn shared(&mut self, handle: usize) {
        if let Some(known) = self.known.get_mut(&handle) {
            known.is_shared = true;
        }
    }

    /// Removes a freed communicator.
    pub(crate) fn forget(&mut self, handle: usize) {
        self.known.remove(&handle);
    }

    /// Describes a communicator by its origin and its name.
    pub(crate) fn describe(&self, mpi: &MpiProperties, handle: usize) -> String {
        if let Some(name) = predefined(mpi, handle) {
            return name.to_owned();
        }
        // MPI is not asked about an invalid handle.
        let Some(KnownCommunicator { origin: Some(origin), is_shared, .. }) =
            self.known.get(&handle)
        else {
            return format!("communicator {handle:#x}");
        };
        let text = match is_shared {
            false => origin.describe(mpi),
            true => {
                format!("one that stands for several, {} among them", origin.describe(mpi))
            }
        };
        match given_name(handle) {
            Some(name) => format!("\"{name}\" ({text})"),
            None => text,
        }
    }
}

impl NameOrigin {
    fn describe(&self, mpi: &MpiProperties) -> String {
        let parent = match &self.parent {
            Parent::Made(origin) => origin.describe(mpi),
            Parent::Number(number) => format!("communicator number {number} that was made"),
            Parent::Handle(handle) => match predefined(mpi, *handle) {
                Some(name) => name.to_owned(),
                None => format!("communicator {handle:#x}"),
            },
        };
        let what = match self.call.0 {
            "MPI_Comm_dup" | "MPI_Comm_dup_with_info" => "duplicate",
            call => call,
        };
        format!("the {} {what} of {parent}", ordinal(self.nth))
    }
}

fn predefined(mpi: &MpiProperties, handle: usize) -> Option<&'static str> {
    match handle {
        _ if handle == mpi.comm_world => Some("MPI_COMM_WORLD"),
        _ if handle == mpi.comm_self => Some("MPI_COMM_SELF"),
        _ if handle == mpi.comm_null => Some("MPI_COMM_NULL"),
        _ => None,
    }
}

/// The name that the application has given to a communicator.
fn given_name(handle: usize) -> Option<String> {
    // More than any library's MPI_MAX_OBJECT_NAME.
    let mut name = [0u8; 1 << 10];
    let mut len: c_int = 0;
    // SAFETY: a communicator that was made and not freed, and room for the longest name.
    let code = unsafe { pmpi::comm_get_name(handle, name.as_mut_ptr().cast::<c_char>(), &mut len) };
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy();
    (code == 0 && !name.is_empty()).then(|| name.into_owned())
}

/// `1st`, `2nd`, `3rd`, `4th`.
fn ordinal(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::tests::mpi;

    const DUP: Call = Call("MPI_Comm_dup");
    const SPLIT: Call = Call("MPI_Comm_split");

    fn origin(names: &CommunicatorNames, handle: usize) -> String {
        let origin = names.known.get(&handle).and_then(|known| known.origin.as_ref());
        origin.map(|origin| origin.describe(&mpi())).unwrap_or_default()
    }

    /// Catches a count that mixes calls or parents or omits communicators without this process, and a
    /// description that is lost with the parent.
    #[test]
    fn communicators_are_named_by_how_they_came_to_be() {
        let (mpi, mut names) = (mpi(), CommunicatorNames::default());
        let (world, own, null) = (mpi.comm_world, mpi.comm_self, mpi.comm_null);
        names.made(&mpi, DUP, world, 100);
        names.made(&mpi, SPLIT, world, null);
        names.made(&mpi, SPLIT, world, 101);
        names.made(&mpi, DUP, world, 102);
        names.made(&mpi, DUP, own, 103);
        names.made(&mpi, SPLIT, 102, 104);
        names.forget(102);
        assert_eq!(origin(&names, 100), "the 1st duplicate of MPI_COMM_WORLD");
        assert_eq!(origin(&names, 101), "the 2nd MPI_Comm_split of MPI_COMM_WORLD");
        assert_eq!(origin(&names, 103), "the 1st duplicate of MPI_COMM_SELF");
        let split = "the 1st MPI_Comm_split of the 2nd duplicate of MPI_COMM_WORLD";
        assert_eq!(origin(&names, 104), split);
        // Its handle was reused.
        names.made(&mpi, DUP, world, 102);
        assert_eq!(origin(&names, 102), "the 3rd duplicate of MPI_COMM_WORLD");
        assert_eq!(names.describe(&mpi, own), "MPI_COMM_SELF");
        assert_eq!(names.describe(&mpi, 7000), "communicator 0x1b58");
    }

    /// Catches texts and memory that grow with a chain of communicators.
    #[test]
    fn long_lines_of_communicators_have_short_names() {
        let (mpi, mut names) = (mpi(), CommunicatorNames::default());
        let mut before = mpi.comm_world;
        for handle in 100..10_100 {
            names.made(&mpi, DUP, before, handle);
            names.forget(before);
            before = handle;
        }
        let text = origin(&names, before);
        assert!(text.ends_with("that was made") && text.len() < 150, "{text}");
        assert_eq!(names.known.len(), 1);
    }

    #[test]
    fn ordinals() {
        let all = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(ordinal);
        assert_eq!(all.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 113th");
    }
}
