//! Communicators in a restarted process: handles differ there, so the log identifies communicators by
//! the order in which the application makes them.
//!
//! A restarted process makes its communicators in the same order before it restores the log. Those that
//! it has freed and that a logged part still uses come after all others.

use std::ffi::c_int;

use super::bytes::{NumberReader, NumberWriter, Result};
use crate::memory::NoMemory;

/// Properties of a communicator that are the same in any process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommTraits {
    /// The number of its processes.
    pub size: c_int,
    /// This process's rank in it.
    pub rank: c_int,
    /// Its topology, as an MPI constant.
    pub topology: c_int,
    /// Whether it is an intercommunicator.
    pub is_inter: bool,
}

impl CommTraits {
    /// A description, given the library's topology constants.
    fn describe(&self, topologies: Topologies) -> String {
        let kind = if self.is_inter { "an intercommunicator" } else { "a communicator" };
        let CommTraits { size, rank, topology, .. } = *self;
        let Topologies { none, cart, graph, dist_graph } = topologies;
        let topology = match topology {
            topology if topology == none => "without a topology".to_owned(),
            topology if topology == cart => "with a Cartesian topology".to_owned(),
            topology if topology == graph => "with a graph topology".to_owned(),
            topology if topology == dist_graph => "with a distributed graph topology".to_owned(),
            other => format!("with a topology of the unknown kind {other}"),
        };
        format!("{kind} of {size} processes, this one number {rank}, {topology}")
    }
}

/// A communicator that the application has made.
#[derive(Clone, Copy, Debug)]
struct MadeCommunicator {
    handle: usize,
    traits: CommTraits,
    /// Whether the application has freed it, while a logged part still uses it.
    is_freed: bool,
}

/// The application's communicators, in order.
#[derive(Clone, Debug, Default)]
pub struct Communicators(Vec<MadeCommunicator>);

impl Communicators {
    /// Reserves room for one more.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reserve(&mut self) -> std::result::Result<(), NoMemory> {
        Ok(self.0.try_reserve(1)?)
    }

    /// Adds a new one.
    pub fn insert(&mut self, handle: usize, traits: CommTraits) {
        self.forget(handle);
        self.0.push(MadeCommunicator { handle, traits, is_freed: false });
    }

    /// The application has freed a communicator, which is kept.
    pub fn freed(&mut self, handle: usize) {
        for made in self.0.iter_mut().filter(|made| made.handle == handle) {
            made.is_freed = true;
        }
    }

    /// Removes one.
    pub fn forget(&mut self, handle: usize) {
        self.0.retain(|made| made.handle != handle);
    }

    /// All, in the order in which a restarted process makes them.
    pub(super) fn in_order(&self) -> Vec<(usize, CommTraits)> {
        let of = |freed| self.0.iter().filter(move |made| made.is_freed == freed);
        of(false).chain(of(true)).map(|made| (made.handle, made.traits)).collect()
    }
}

/// The topology constants.
#[derive(Clone, Copy, Debug)]
pub struct Topologies {
    /// No topology.
    pub none: c_int,
    /// A Cartesian grid.
    pub cart: c_int,
    /// A graph.
    pub graph: c_int,
    /// A distributed graph.
    pub dist_graph: c_int,
}

/// The predefined handles.
#[derive(Clone, Copy, Debug)]
pub struct Predefined {
    /// `MPI_COMM_WORLD`.
    pub world: usize,
    /// `MPI_COMM_SELF`.
    pub own: usize,
    /// `MPI_COMM_NULL`.
    pub null: usize,
    /// `MPI_MESSAGE_NO_PROC`, which is logged like a communicator.
    pub no_proc: usize,
    /// The topology constants.
    pub topologies: Topologies,
}

/// Number 0: no handle; then the predefined ones, then the others in order.
const NONE: u32 = 0;
const WORLD: u32 = 1;
const OWN: u32 = 2;
const NULL: u32 = 3;
const NO_PROC: u32 = 4;
const FIRST: u32 = 5;

/// Translates handles to numbers, for writing.
#[derive(Debug)]
pub struct CommunicatorNumbers {
    predefined: Predefined,
    all: Vec<(usize, CommTraits)>,
}

impl CommunicatorNumbers {
    /// The numbers of these communicators.
    pub fn new(predefined: Predefined, made: &Communicators) -> CommunicatorNumbers {
        CommunicatorNumbers { predefined, all: made.in_order() }
    }

    /// Writes the properties of all communicators.
    pub fn write(&self, to: &mut NumberWriter) {
        to.list(&self.all, |to, (_, traits)| {
            to.i32(traits.size);
            to.i32(traits.rank);
            to.i32(traits.topology);
            to.flag(traits.is_inter);
        });
    }

    /// The number of a communicator.
    ///
    /// # Errors
    /// It was made by a call that this library does not intercept.
    pub(super) fn comm(&self, handle: usize) -> Result<u32> {
        let Predefined { world, own, null, .. } = self.predefined;
        if handle == 0 {
            return Ok(NONE);
        }
        if handle == world {
            return Ok(WORLD);
        }
        if handle == own {
            return Ok(OWN);
        }
        if handle == null {
            return Ok(NULL);
        }
        let place = self.all.iter().position(|(other, _)| *other == handle);
        place.map(|place| place as u32 + FIRST).ok_or_else(|| {
            format!(
                "communicator {handle:#x} was made by a call that this library does not see, so it cannot \
                 be found in another process"
            )
        })
    }

    /// The number of the handle that a call of this name returned: a probed message or a communicator.
    ///
    /// # Errors
    /// The error of [`comm`](Self::comm).
    pub(super) fn given(&self, call: &str, handle: usize) -> Result<u32> {
        match is_probe(call) && handle != 0 {
            true => Ok(NO_PROC),
            false => self.comm(handle),
        }
    }
}

/// Whether the call returns a message.
fn is_probe(call: &str) -> bool {
    matches!(call, "MPI_Mprobe" | "MPI_Improbe")
}

/// Translates numbers to handles.
#[derive(Debug)]
pub struct CommunicatorHandles {
    predefined: Predefined,
    /// The properties of each when it was written.
    then: Vec<CommTraits>,
    now: Vec<(usize, CommTraits)>,
}

impl CommunicatorHandles {
    /// Reads what [`CommunicatorNumbers::write`] has written, for a process with these communicators.
    ///
    /// # Errors
    /// It is invalid.
    pub fn read(
        from: &mut NumberReader<'_>,
        predefined: Predefined,
        made: &Communicators,
    ) -> Result<CommunicatorHandles> {
        let then = from.list(13, |from| {
            Ok(CommTraits {
                size: from.i32()?,
                rank: from.i32()?,
                topology: from.i32()?,
                is_inter: from.flag()?,
            })
        })?;
        Ok(CommunicatorHandles { predefined, then, now: made.in_order() })
    }

    /// The handle of a number.
    ///
    /// # Errors
    /// There is no such communicator yet, or it has other properties.
    pub(super) fn get(&self, number: u32) -> Result<usize> {
        let Predefined { world, own, null, no_proc, topologies } = self.predefined;
        let place = match number {
            NONE => return Ok(0),
            WORLD => return Ok(world),
            OWN => return Ok(own),
            NULL => return Ok(null),
            NO_PROC => return Ok(no_proc),
            made => (made - FIRST) as usize,
        };
        let Some(then) = self.then.get(place) else {
            return Err(format!("communicator {place} of {}", self.then.len()));
        };
        let nth = place + 1;
        let order =
            "a restarted program must make its communicators in the same order before it restores";
        match self.now.get(place) {
            None => Err(format!(
                "communicator {nth} that the program made, {}, is used by a logged part, and is not \
                 made yet: {order}",
                then.describe(topologies)
            )),
            Some((_, now)) if now != then => Err(format!(
                "communicator {nth} that the program made was {}, and is {}: {order}",
                then.describe(topologies),
                now.describe(topologies)
            )),
            Some((handle, _)) => Ok(*handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPOLOGIES: Topologies = Topologies { none: -32766, cart: 1, graph: 2, dist_graph: 3 };

    const PREDEFINED: Predefined =
        Predefined { world: 10, own: 11, null: 12, no_proc: 13, topologies: TOPOLOGIES };

    fn made(all: &[(usize, c_int)]) -> Communicators {
        let mut made = Communicators::default();
        for &(handle, size) in all {
            made.insert(handle, CommTraits { size, ..CommTraits::default() });
        }
        made
    }

    /// The handle in a process with `now` for `handle` in a process with `then`.
    fn moved(then: &Communicators, handle: usize, now: &Communicators) -> Result<usize> {
        let numbers = CommunicatorNumbers::new(PREDEFINED, then);
        let mut writer = NumberWriter::new(0).unwrap();
        numbers.write(&mut writer);
        writer.u32(numbers.comm(handle)?);
        let sealed = writer.seal();
        let mut reader = NumberReader::open(&sealed)?;
        let predefined = Predefined { world: 20, own: 21, null: 22, no_proc: 23, ..PREDEFINED };
        let handles = CommunicatorHandles::read(&mut reader, predefined, now)?;
        handles.get(reader.u32()?)
    }

    /// Catches an order that counts removed communicators, and a freed one in the position of another.
    #[test]
    fn order_is_that_of_what_the_application_has() {
        let mut then = made(&[(100, 2), (101, 3), (102, 4), (103, 5)]);
        then.forget(100);
        then.freed(101);
        let now = made(&[(7, 4), (8, 5), (9, 3)]);
        assert_eq!(moved(&then, 102, &now), Ok(7));
        assert_eq!(moved(&then, 103, &now), Ok(8));
        assert_eq!(moved(&then, 101, &now), Ok(9));
        for (from, to) in [(0, 0), (10, 20), (11, 21), (12, 22)] {
            assert_eq!(moved(&then, from, &made(&[])), Ok(to));
        }
    }

    #[test]
    fn what_is_missing_or_another_is_named() {
        let then = made(&[(100, 2), (101, 3)]);
        let missing = moved(&then, 101, &made(&[(7, 2)])).unwrap_err();
        assert!(missing.contains("communicator 2") && missing.contains("3 processes"), "{missing}");
        let other = moved(&then, 100, &made(&[(7, 9), (8, 3)])).unwrap_err();
        assert!(other.contains("2 processes") && other.contains("9 processes"), "{other}");
        assert!(moved(&then, 500, &then).unwrap_err().contains("0x1f4"));
    }

    /// Catches an MPI constant that is printed instead of a word.
    #[test]
    fn a_topology_has_a_name() {
        for (topology, words) in [
            (-32766, "1 processes, this one number 0, without a topology"),
            (1, "with a Cartesian topology"),
            (2, "with a graph topology"),
            (3, "with a distributed graph topology"),
            (9, "of the unknown kind 9"),
        ] {
            let traits = CommTraits { size: 1, topology, ..CommTraits::default() };
            let text = traits.describe(TOPOLOGIES);
            assert!(text.ends_with(words), "{text}");
        }
    }
}
