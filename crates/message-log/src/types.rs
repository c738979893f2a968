//! Datatypes: their sizes, whether they have gaps, and how they are packed.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use message_log_core::status::SUCCESS;
use message_log_core::target::Datatype;

use crate::copy;
use crate::mpi::MpiProperties;
use crate::pmpi::{self, Ptr};

/// Bytes per packing call, whose lengths are `int`.
const PACK: i64 = 1 << 30;

/// A copy of a type that is freed with this value.
#[derive(Debug)]
pub(crate) struct Owned {
    mpi: MpiProperties,
    handle: usize,
}

impl Owned {
    /// A type that nobody else has.
    pub(crate) fn new(mpi: &MpiProperties, handle: usize) -> Box<Owned> {
        Box::new(Owned { mpi: *mpi, handle })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut handle = 0usize;
        // SAFETY: a handle of ours, and a type that nobody else has. Types are dropped before MPI is
        // finalized.
        unsafe {
            self.mpi.write_handle((&raw mut handle).cast(), self.handle);
            pmpi::type_free((&raw mut handle).cast());
        }
    }
}

fn query(handle: usize) -> Datatype {
    let (mut size, mut lb, mut extent, mut true_lb, mut true_extent) = (0, 0, 0, 0, 0);
    // SAFETY: the application passed the handle to MPI as a type, and MPI accepted it, or will report
    // what is wrong; integers of ours.
    unsafe {
        pmpi::type_size(handle, &mut size);
        pmpi::type_get_extent(handle, &mut lb, &mut extent);
        pmpi::type_get_true_extent(handle, &mut true_lb, &mut true_extent);
    }
    Datatype {
        handle,
        size,
        extent: extent as i64,
        lb: true_lb as i64,
        is_dense: size == extent as i64 && extent == true_extent,
        owned: None,
    }
}

/// The properties of an invalid type. MPI reports it to the call and is not queried before, as that would
/// call another communicator's error handler.
fn none(handle: usize) -> Datatype {
    Datatype { handle, size: 0, extent: 0, lb: 0, is_dense: false, owned: None }
}

/// Packs whole elements. A CUDA-aware MPI also packs device memory.
///
/// # Errors
/// The error of the driver or of MPI.
///
/// # Safety
/// `buf` has as many elements as fill `to`.
pub(crate) unsafe fn pack(
    datatype: &Datatype,
    mpi: &MpiProperties,
    buf: usize,
    to: &mut [u8],
) -> Result<(), String> {
    if datatype.is_dense {
        let from = (buf as i64 + datatype.lb) as *const c_void;
        // SAFETY: by the caller's promise: elements without gaps, from their first byte on.
        return unsafe { copy::into_log(to.as_mut_ptr().cast(), from, to.len()) };
    }
    by_pieces(datatype, to.len() as i64, |first, count, at, len| {
        let code = at_address(
            datatype,
            mpi,
            buf as i64 + first * datatype.extent,
            count,
            |from, count, handle| {
                let mut position = 0;
                // SAFETY: by the caller's promise; the piece of `to` is as long as its elements.
                unsafe {
                    let to = to.as_mut_ptr().add(at).cast();
                    pmpi::pack(from, count, handle, to, len, &mut position, mpi.comm_self)
                }
            },
        );
        succeeded("MPI_Pack", code)
    })
}

/// Unpacks whole elements.
///
/// # Errors
/// The errors of [`pack`].
///
/// # Safety
/// `buf` has room for the elements in `from`.
pub(crate) unsafe fn unpack(
    datatype: &Datatype,
    mpi: &MpiProperties,
    from: &[u8],
    buf: usize,
) -> Result<(), String> {
    if datatype.is_dense {
        let to = (buf as i64 + datatype.lb) as *mut c_void;
        // SAFETY: by the caller's promise: elements without gaps, from their first byte on.
        return unsafe { copy::from_log(to, from.as_ptr().cast(), from.len()) };
    }
    by_pieces(datatype, from.len() as i64, |first, count, at, len| {
        let code = at_address(
            datatype,
            mpi,
            buf as i64 + first * datatype.extent,
            count,
            |to, count, handle| {
                let mut position = 0;
                // SAFETY: by the caller's promise; MPI only reads what it unpacks.
                unsafe {
                    let from = from.as_ptr().add(at).cast_mut().cast();
                    pmpi::unpack(from, len, &mut position, to, count, handle, mpi.comm_self)
                }
            },
        );
        succeeded("MPI_Unpack", code)
    })
}

/// Calls `body` with the address, number and type of elements. MPICH packs nothing at `MPI_BOTTOM`, which
/// is null: there, another address and a displaced type are used.
fn at_address(
    datatype: &Datatype,
    mpi: &MpiProperties,
    place: i64,
    count: c_int,
    body: impl FnOnce(Ptr, c_int, usize) -> c_int,
) -> c_int {
    const ELSEWHERE: i64 = 4096;
    if place != 0 {
        return body(place as Ptr, count, datatype.handle);
    }
    let mut made = 0usize;
    let moved = (&raw mut made).cast();
    // SAFETY: numbers of ours, a type, and room for the widest handle.
    let handle = unsafe {
        pmpi::type_create_hindexed(1, &count, &-(ELSEWHERE as isize), datatype.handle, moved);
        pmpi::type_commit(moved);
        mpi.read_handle(moved)
    };
    let code = body(ELSEWHERE as Ptr, 1, handle);
    // SAFETY: the type made above.
    unsafe { pmpi::type_free(moved) };
    code
}

/// Calls `piece` with the first element, the number of elements, and the offset and the length of
/// their packed bytes.
///
/// # Errors
/// The errors of `piece`; or an element is longer than its extent allows, for which MPI would abort the
/// job.
fn by_pieces(
    datatype: &Datatype,
    bytes: i64,
    mut piece: impl FnMut(i64, c_int, usize, c_int) -> Result<(), String>,
) -> Result<(), String> {
    if datatype.size == 0 {
        return Ok(());
    }
    if bytes > 0 && datatype.size > i64::from(c_int::MAX) {
        let size = datatype.size;
        return Err(format!("an element of {size} bytes with gaps is too long for MPI_Pack"));
    }
    let all = bytes / datatype.size;
    let most = (PACK / datatype.size).max(1);
    let mut first = 0;
    while first < all {
        let count = most.min(all - first);
        let (at, len) = (first * datatype.size, count * datatype.size);
        piece(first, count as c_int, at as usize, len as c_int)?;
        first += count;
    }
    Ok(())
}

fn succeeded(call: &str, code: c_int) -> Result<(), String> {
    match code {
        SUCCESS => Ok(()),
        _ => Err(format!("{call} failed with {code}")),
    }
}

/// The number of cached types, a power of two. A program uses few.
const RECENT: usize = 8;

/// The index of a type in the cache.
#[inline(always)]
fn slot(handle: usize) -> usize {
    let spread = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - RECENT.trailing_zeros())) as usize
}

/// The recently used types.
#[derive(Debug, Default)]
pub(crate) struct RecentTypes {
    /// `MPI_DATATYPE_NULL`.
    null: usize,
    recent: [Option<Rc<Datatype>>; RECENT],
    known: HashMap<usize, Rc<Datatype>>,
    /// How many instances of parts had begun when a type was made.
    made: HashMap<usize, u64>,
}

impl RecentTypes {
    /// An empty cache.
    pub(crate) fn new(mpi: &MpiProperties) -> RecentTypes {
        RecentTypes { null: mpi.datatype_null, ..RecentTypes::default() }
    }

    /// The properties of a cached type.
    #[inline(always)]
    pub(crate) fn recent(&self, handle: usize) -> Option<&Rc<Datatype>> {
        self.recent[slot(handle)].as_ref().filter(|recent| recent.handle == handle)
    }

    /// The properties of a type.
    pub(crate) fn get(&mut self, handle: usize) -> Rc<Datatype> {
        if let Some(recent) = self.recent(handle) {
            return Rc::clone(recent);
        }
        let query = || match handle == self.null {
            true => Rc::new(none(handle)),
            false => Rc::new(query(handle)),
        };
        let found = match self.known.try_reserve(1) {
            Ok(()) => self.known.entry(handle).or_insert_with(query).clone(),
            // Without memory to store another one, it is queried each time.
            Err(_) => self.known.get(&handle).cloned().unwrap_or_else(query),
        };
        self.recent[slot(handle)] = Some(Rc::clone(&found));
        found
    }

    /// A type was made when this many instances of parts had begun. Out of memory, it counts as older than
    /// all of them.
    pub(crate) fn made(&mut self, handle: usize, instances: u64) {
        match self.made.try_reserve(1) {
            Ok(()) => drop(self.made.insert(handle, instances)),
            Err(_) => drop(self.made.remove(&handle)),
        }
    }

    /// How many instances had begun when this type, which is being freed, was made.
    pub(crate) fn freed(&mut self, handle: usize) -> u64 {
        self.made.remove(&handle).unwrap_or(0)
    }

    /// A copy of a type that is about to be freed, for an active request.
    pub(crate) fn copy(mpi: &MpiProperties, handle: usize) -> Rc<Datatype> {
        let mut copy = 0usize;
        // SAFETY: a type, and room for the widest handle.
        let handle = unsafe {
            pmpi::type_dup(handle, (&raw mut copy).cast());
            mpi.read_handle((&raw mut copy).cast())
        };
        let mut datatype = query(handle);
        datatype.owned = Some(Owned::new(mpi, handle));
        Rc::new(datatype)
    }

    /// Removes a freed type, whose handle may be reused.
    pub(crate) fn forget(&mut self, handle: usize) {
        if self.recent(handle).is_some() {
            self.recent[slot(handle)] = None;
        }
        self.known.remove(&handle);
    }

    /// Clears everything.
    pub(crate) fn clear(&mut self) {
        *self = RecentTypes { null: self.null, ..RecentTypes::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(size: i64, count: i64) -> Result<Vec<(i64, c_int, usize, c_int)>, String> {
        let (handle, extent, lb) = (1, size + 4, 0);
        let datatype = Datatype { handle, size, extent, lb, is_dense: false, owned: None };
        let mut pieces = Vec::new();
        by_pieces(&datatype, count * size, |first, count, at, len| {
            pieces.push((first, count, at, len));
            Ok(())
        })?;
        Ok(pieces)
    }

    /// Catches types that are confused with others in the same slot, and types that outlive their
    /// handle.
    #[test]
    fn types_that_were_used_lately_are_found() {
        let mut types = RecentTypes { null: 1, ..RecentTypes::default() };
        let made = |handle| Rc::new(none(handle));
        let handles = || (1..=40).map(|n| n << 4);
        types.known.extend(handles().map(|handle| (handle, made(handle))));
        for handle in handles() {
            assert_eq!(types.get(handle).handle, handle);
            assert!(types.recent(handle).is_some_and(|recent| recent.handle == handle));
        }
        let found: Vec<usize> =
            handles().filter(|handle| types.recent(*handle).is_some()).collect();
        assert!((2..=RECENT).contains(&found.len()), "{found:?}");
        types.forget(found[0]);
        assert!(types.recent(found[0]).is_none() && !types.known.contains_key(&found[0]));
        assert!(types.recent(found[1]).is_some());
        types.clear();
        assert!(handles().all(|handle| types.recent(handle).is_none()));
    }

    /// Catches lengths that do not fit `int`: MPI would read them as negative or as other values.
    #[test]
    fn pieces_have_lengths_that_mpi_can_say() {
        assert_eq!(pieces(0, 5), Ok(vec![]));
        assert_eq!(pieces(8, 3), Ok(vec![(0, 3, 0, 24)]));
        let (most, len) = (1 << 27, 1 << 30);
        let two = vec![(0, most, 0, len), (i64::from(most), 1, len as usize, 8)];
        assert_eq!(pieces(8, i64::from(most) + 1), Ok(two));
        let long = i64::from(c_int::MAX);
        let two = vec![(0, 1, 0, c_int::MAX), (1, 1, c_int::MAX as usize, c_int::MAX)];
        assert_eq!(pieces(long, 2), Ok(two));
        for size in [long + 1, (1 << 32) + 8] {
            let text = pieces(size, 1).unwrap_err();
            assert!(text.contains(&size.to_string()), "{text}");
            assert_eq!(pieces(size, 0), Ok(vec![]));
        }
    }
}
