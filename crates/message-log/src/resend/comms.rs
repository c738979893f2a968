//! Numbers communicators identically on all their processes without communication: each process counts
//! the communicators with the same processes in the order in which they are made, which is collective.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher as _};
use std::rc::Rc;

use super::key_hasher::KeyHasher;
use super::shortcuts::Shortcuts;
use crate::memory::{self, NoMemory};
use crate::mpi::Mpi;
use crate::pmpi;

/// The group of an intracommunicator.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its number.
    pub number: u64,
    /// The ranks of its processes in `MPI_COMM_WORLD`.
    pub world: Rc<[u32]>,
}

impl Group {
    /// The rank in `MPI_COMM_WORLD` of a process of the group.
    #[inline]
    pub(crate) fn process(&self, rank: c_int) -> Option<u32> {
        self.world.get(usize::try_from(rank).ok()?).copied()
    }
}

/// The index of a group. It stays valid when its communicator is freed, as messages may be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupIndex(u32);

/// All known communicators.
#[derive(Debug, Default)]
pub(crate) struct Comms {
    known: HashMap<usize, GroupIndex, BuildHasherDefault<KeyHasher>>,
    /// The last one that was looked up.
    last: Option<(usize, GroupIndex)>,
    /// Streams to others, by the arguments of calls.
    pub outgoing: Shortcuts,
    /// Streams from others, by the arguments of calls.
    pub incoming: Shortcuts,
    groups: Vec<Group>,
    /// The processes and the number of communicators made for them, by the digest of the processes.
    made: HashMap<u64, (Rc<[u32]>, u64)>,
}

impl Comms {
    /// With the predefined communicators.
    pub(crate) fn new(mpi: &Mpi) -> Comms {
        let mut comms = Comms::default();
        comms.made(mpi, mpi.comm_world);
        comms.made(mpi, mpi.comm_self);
        comms
    }

    /// The group of a communicator. `None` if its making was not seen, or it is an intercommunicator.
    #[inline]
    pub(crate) fn get(&mut self, handle: usize) -> Option<GroupIndex> {
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
    pub(crate) fn group(&self, place: GroupIndex) -> &Group {
        &self.groups[place.0 as usize]
    }

    /// Reserves room for one more communicator.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        self.known.try_reserve(1)?;
        self.made.try_reserve(1)?;
        Ok(self.groups.try_reserve(1)?)
    }

    /// Adds a new communicator. Out of memory for its processes, it is not known.
    pub(crate) fn made(&mut self, mpi: &Mpi, handle: usize) {
        let Some(world) = processes(mpi, handle) else { return };
        let mut digest = KeyHasher::default();
        for process in world.iter() {
            digest.write_u64(u64::from(*process) + 1);
        }
        let (world, before) = self.made.entry(digest.finish()).or_insert((world, 0));
        digest.write_u64(*before);
        *before += 1;
        self.known.insert(handle, GroupIndex(self.groups.len() as u32));
        self.groups.push(Group { number: digest.finish(), world: Rc::clone(world) });
        self.handles_change();
    }

    /// A communicator was freed.
    pub(crate) fn forget(&mut self, handle: usize) {
        self.handles_change();
        self.known.remove(&handle);
    }

    fn handles_change(&mut self) {
        self.last = None;
        self.outgoing.clear();
        self.incoming.clear();
    }
}

/// The processes of an intracommunicator.
fn processes(mpi: &Mpi, comm: usize) -> Option<Rc<[u32]>> {
    if comm == mpi.comm_null {
        return None;
    }
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: a communicator that MPI returned, and integers of ours.
    unsafe {
        pmpi::comm_test_inter(comm, &mut is_inter);
        pmpi::comm_size(comm, &mut size);
    }
    if is_inter != 0 {
        return None;
    }
    let len = usize::try_from(size).ok()?;
    let mut ranks: Vec<c_int> = memory::room(len).ok()?;
    ranks.extend(0..size);
    let mut world: Vec<c_int> = memory::room(len).ok()?;
    world.resize(len, 0);
    let (mut group, mut all) = (0usize, 0usize);
    let (at_group, at_all) = ((&raw mut group).cast(), (&raw mut all).cast());
    // SAFETY: buffers as wide as any handle, and room for as many integers as processes.
    unsafe {
        pmpi::comm_group(comm, at_group);
        pmpi::comm_group(mpi.comm_world, at_all);
        pmpi::group_translate_ranks(
            mpi.read_handle(at_group),
            size,
            ranks.as_ptr().cast_mut(),
            mpi.read_handle(at_all),
            world.as_mut_ptr(),
        );
        pmpi::group_free(at_group);
        pmpi::group_free(at_all);
    }
    // Processes of another world, as after MPI_Comm_spawn, have no rank in this one.
    world.iter().map(|&process: &c_int| u32::try_from(process).ok()).collect()
}
