//! Numbers communicators identically on all their processes without communication: each process counts
//! the communicators with the same processes in the order in which they are made, which is collective.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher as _};
use std::rc::Rc;

use super::key_hasher::KeyHasher;
use super::shortcuts::Shortcuts;
use crate::memory::NoMemory;

/// The group of an intracommunicator.
#[derive(Debug)]
pub struct ProcessGroup {
    /// Its number.
    pub number: u64,
    /// The ranks of its processes in `MPI_COMM_WORLD`.
    pub world: Rc<[u32]>,
}

impl ProcessGroup {
    /// The rank in `MPI_COMM_WORLD` of a process of the group.
    #[inline]
    pub fn process(&self, rank: c_int) -> Option<u32> {
        self.world.get(usize::try_from(rank).ok()?).copied()
    }
}

/// The index of a group. It stays valid when its communicator is freed, as messages may be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupIndex(u32);

/// All known communicators.
#[derive(Debug, Default)]
pub struct Comms {
    known: HashMap<usize, GroupIndex, BuildHasherDefault<KeyHasher>>,
    /// The last one that was looked up.
    last: Option<(usize, GroupIndex)>,
    /// Streams to others, by the arguments of calls.
    pub outgoing: Shortcuts,
    /// Streams from others, by the arguments of calls.
    pub incoming: Shortcuts,
    groups: Vec<ProcessGroup>,
    /// The processes and the number of communicators made for them, by the digest of the processes.
    made: HashMap<u64, (Rc<[u32]>, u64)>,
}

impl Comms {
    /// The group of a communicator. `None` if its making was not seen, or it is an intercommunicator.
    #[inline]
    pub fn get(&mut self, handle: usize) -> Option<GroupIndex> {
        match self.last {
            Some((last, place)) if last == handle => Some(place),
            _ => self.find(handle),
        }
    }

    #[inline(never)]
    fn find(&mut self, handle: usize) -> Option<GroupIndex> {
        let place = self.known.get(&handle).copied()?;
        self.last = Some((handle, place));
        Some(place)
    }

    /// The group at an index.
    #[inline]
    pub fn group(&self, place: GroupIndex) -> &ProcessGroup {
        &self.groups[place.0 as usize]
    }

    /// Reserves room for one more communicator.
    ///
    /// # Errors
    /// Out of memory.
    pub fn reserve(&mut self) -> Result<(), NoMemory> {
        self.known.try_reserve(1)?;
        self.made.try_reserve(1)?;
        Ok(self.groups.try_reserve(1)?)
    }

    /// Adds a new communicator of the processes with these ranks in `MPI_COMM_WORLD`.
    pub fn made(&mut self, handle: usize, world: Rc<[u32]>) {
        let mut digest = KeyHasher::default();
        for process in world.iter() {
            digest.write_u64(u64::from(*process) + 1);
        }
        let (world, before) = self.made.entry(digest.finish()).or_insert((world, 0));
        digest.write_u64(*before);
        *before += 1;
        self.known.insert(handle, GroupIndex(self.groups.len() as u32));
        self.groups.push(ProcessGroup { number: digest.finish(), world: Rc::clone(world) });
        self.handles_change();
    }

    /// A communicator was freed.
    pub fn forget(&mut self, handle: usize) {
        self.handles_change();
        self.known.remove(&handle);
    }

    fn handles_change(&mut self) {
        self.last = None;
        self.outgoing.clear();
        self.incoming.clear();
    }
}
