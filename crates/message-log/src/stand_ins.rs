//! Communicators that the application makes and frees within a part. A replay makes no communicator: it
//! returns those of the first run, through which nothing is sent and which only serve queries. Of those
//! with the same processes, one is kept and represents all; the others are freed when the application
//! frees them, as MPI has a limited number.
//!
//! A replay repeats the calls that set attributes, names and error handlers of one of them. Attributes that
//! a duplicate has from its parent come with no call: such a duplicate represents only itself.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;

use message_log_core::log::Call;
use message_log_core::memory::{self, NoMemory};
use message_log_core::parts::CommOrigin;

use crate::mpi::MpiProperties;
use crate::pmpi;

/// A communicator that the application has freed and that represents others, too.
#[derive(Debug)]
struct StandIn {
    handle: usize,
    /// The call that made it.
    call: Call,
    /// All events that use what it represents are before this number.
    end: u64,
    /// How many instances of parts had begun when the last of these was freed.
    at: u64,
}

/// All stand-ins.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    origins: HashMap<usize, CommOrigin>,
    kept: Vec<StandIn>,
    /// Duplicates that had attributes from their parents.
    with_attributes: HashSet<usize>,
    /// The kinds of attributes that were set.
    keyvals: HashSet<c_int>,
}

impl StandIns {
    /// Reserves room for one more communicator.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        self.with_attributes.try_reserve(1)?;
        Ok(self.origins.try_reserve(1)?)
    }

    /// Reserves room for one more kind of attributes.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn reserve_keyval(&mut self) -> Result<(), NoMemory> {
        Ok(self.keyvals.try_reserve(1)?)
    }

    /// The application has set an attribute of this kind, for which there is room.
    pub(crate) fn sets(&mut self, keyval: c_int) {
        self.keyvals.insert(keyval);
    }

    /// The application frees this kind of attributes: MPI must not be asked for them any more.
    pub(crate) fn frees(&mut self, keyval: c_int) {
        self.keyvals.remove(&keyval);
    }

    /// A duplicate has been made, for which there is room. It may have attributes from its parent.
    pub(crate) fn duplicated(&mut self, handle: usize) {
        let has = |keyval: &c_int| {
            let mut value = 0usize;
            let value = (&raw mut value).cast();
            // SAFETY: an existing communicator, a keyval that was not freed, and places of ours.
            number(|flag| unsafe { pmpi::comm_get_attr(handle, *keyval, value, flag) })
                .is_some_and(|flag| flag != 0)
        };
        if self.keyvals.iter().any(has) {
            self.with_attributes.insert(handle);
        }
    }

    /// A communicator is gone, and another may get its handle.
    pub(crate) fn forget(&mut self, handle: usize) {
        self.with_attributes.remove(&handle);
    }

    /// Adds a new communicator. `origin` is `None` if it is older than the log.
    pub(crate) fn made(&mut self, handle: usize, origin: Option<CommOrigin>) {
        match origin {
            Some(origin) => self.origins.insert(handle, origin),
            None => self.origins.remove(&handle),
        };
    }

    /// The origin of a communicator that the application frees.
    pub(crate) fn freed(&mut self, handle: usize) -> CommOrigin {
        self.origins.remove(&handle).unwrap_or(CommOrigin { first: 0, made: None })
    }

    /// The communicator that represents one which the application frees: it was made by `call` in event
    /// `made`, all its events are before `end`, and `at` instances have begun. It represents itself if there
    /// is no other.
    ///
    /// # Errors
    /// Out of memory; nothing is stored.
    pub(crate) fn stand_in(
        &mut self,
        mpi: &MpiProperties,
        handle: usize,
        (call, made): (Call, u64),
        end: u64,
        at: u64,
    ) -> Result<usize, NoMemory> {
        // A replay uses only one of them at a time.
        let attributes = &self.with_attributes;
        let plain = |handle: &usize| !attributes.contains(handle);
        let free = self.kept.iter_mut().filter(|kept| kept.call == call && kept.end <= made);
        let mut alike = free.filter(|kept| plain(&kept.handle) && plain(&handle));
        let same = alike.find(|kept| are_alike(mpi, kept.handle, handle));
        if let Some(kept) = same {
            (kept.end, kept.at) = (end, at);
            return Ok(kept.handle);
        }
        memory::push(&mut self.kept, StandIn { handle, call, end, at })?;
        Ok(handle)
    }

    /// Whether some can be freed if only instances from this number on are left.
    pub(crate) fn is_due(&self, first: Option<u64>) -> bool {
        self.kept.iter().any(|kept| kept.is_due(first))
    }

    /// Frees communicators that no instance needs; `oldest` is the number of the oldest instance
    /// left. Returns the freed ones.
    pub(crate) fn free(&mut self, mpi: &MpiProperties, oldest: Option<u64>) -> Vec<usize> {
        let gone: Vec<usize> =
            self.kept.iter().filter(|kept| kept.is_due(oldest)).map(|kept| kept.handle).collect();
        self.kept.retain(|kept| !kept.is_due(oldest));
        for handle in &gone {
            self.with_attributes.remove(handle);
            let mut place = 0usize;
            let at = (&raw mut place).cast();
            // SAFETY: room for the widest handle; the handle is live, since the application's
            // request to free it was not passed on.
            unsafe {
                mpi.write_handle(at, *handle);
                pmpi::comm_free(at);
            }
        }
        gone
    }
}

impl StandIn {
    fn is_due(&self, oldest: Option<u64>) -> bool {
        oldest.is_none_or(|oldest| self.at <= oldest)
    }
}

/// Whether two communicators have the same processes in the same order, and the same topology.
fn are_alike(mpi: &MpiProperties, one: usize, other: usize) -> bool {
    // SAFETY: existing communicators, and an integer of ours.
    let is_inter = |comm| number(|flag| unsafe { pmpi::comm_test_inter(comm, flag) });
    let inter = is_inter(one);
    if inter != is_inter(other) || !have_alike_groups(mpi, pmpi::comm_group, one, other) {
        return false;
    }
    match inter {
        Some(0) => have_alike_topologies(mpi, one, other),
        _ => have_alike_groups(mpi, pmpi::comm_remote_group, one, other),
    }
}

/// A number that MPI returns, if the call succeeds.
fn number(give: impl FnOnce(*mut c_int) -> c_int) -> Option<c_int> {
    let mut number = 0;
    (give(&mut number) == 0).then_some(number)
}

/// Returns the local or the remote group of a communicator.
type Grouper = unsafe fn(usize, pmpi::Ptr) -> c_int;

fn have_alike_groups(mpi: &MpiProperties, grouper: Grouper, one: usize, other: usize) -> bool {
    let (mut first, mut second) = (0usize, 0usize);
    let (at_first, at_second) = ((&raw mut first).cast(), (&raw mut second).cast());
    // SAFETY: existing communicators, buffers as wide as any handle, and integers of ours; groups are freed
    // if they were made.
    unsafe {
        if grouper(one, at_first) != 0 {
            return false;
        }
        let mut are_alike = false;
        if grouper(other, at_second) == 0 {
            let first = mpi.read_handle(at_first);
            // The result for identical groups, whatever its value in this library.
            let same = number(|result| pmpi::group_compare(first, first, result));
            let found =
                number(|result| pmpi::group_compare(first, mpi.read_handle(at_second), result));
            are_alike = found.is_some() && found == same;
            pmpi::group_free(at_second);
        }
        pmpi::group_free(at_first);
        are_alike
    }
}

fn have_alike_topologies(mpi: &MpiProperties, one: usize, other: usize) -> bool {
    // SAFETY: existing communicators, and integers of ours.
    let kind = |comm| number(|kind| unsafe { pmpi::topo_test(comm, kind) });
    match (kind(one), kind(other)) {
        (Some(one), Some(other)) if one != other => false,
        (Some(none), Some(_)) if none == mpi.numbers.undefined => true,
        (Some(cart), Some(_)) if cart == mpi.numbers.cart => {
            grid(one).is_some_and(|grid| self::grid(other) == Some(grid))
        }
        // Graphs may have any number of edges, so each such communicator is kept.
        _ => false,
    }
}

/// The dimensions, periods and coordinates of a Cartesian grid.
fn grid(comm: usize) -> Option<[Vec<c_int>; 3]> {
    // SAFETY: an existing communicator, and an integer of ours.
    let dims = number(|dims| unsafe { pmpi::cartdim_get(comm, dims) })?;
    let room = || vec![0; usize::try_from(dims).unwrap_or(0)];
    let [mut lengths, mut periods, mut place] = [room(), room(), room()];
    let [at_lengths, at_periods, at_place] =
        [&mut lengths, &mut periods, &mut place].map(|numbers| numbers.as_mut_ptr());
    // SAFETY: room for as many numbers as there are dimensions.
    let code = unsafe { pmpi::cart_get(comm, dims, at_lengths, at_periods, at_place) };
    (code == 0).then_some([lengths, periods, place])
}
