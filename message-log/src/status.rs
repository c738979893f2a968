//! Statuses: kept as the library wrote them, with all that it alone knows, and given back so.

use std::ffi::c_int;

use mpi_abi::StatusLayout;

use crate::mpi::Mpi;
use crate::pmpi::{self, Ptr};

/// A status, as long as the longest of any library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Status([u8; StatusLayout::MAX_SIZE]);

impl Default for Status {
    fn default() -> Status {
        Status([0; StatusLayout::MAX_SIZE])
    }
}

impl Status {
    /// Where the library may write it.
    pub fn as_mut_ptr(&mut self) -> Ptr {
        self.0.as_mut_ptr().cast()
    }

    /// The status at a place.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn read(mpi: &Mpi, from: Ptr) -> Status {
        let mut status = Status::default();
        // SAFETY: by the caller's promise, and no longer than the longest.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast(), status.0.as_mut_ptr(), mpi.status.size)
        };
        status
    }

    /// Writes it where the application wants it, without `MPI_ERROR`: calls that complete one
    /// request leave that as it was.
    ///
    /// # Safety
    /// `to` is `MPI_STATUS_IGNORE` or has room for a status.
    pub unsafe fn write(&self, mpi: &Mpi, to: Ptr) {
        if to as usize == mpi.numbers.status_ignore {
            return;
        }
        let (error, size) = (mpi.status.error, mpi.status.size);
        let behind = error + size_of::<c_int>();
        // SAFETY: by the caller's promise; both ranges lie in a status.
        unsafe {
            let (from, to) = (self.0.as_ptr(), to.cast::<u8>());
            std::ptr::copy_nonoverlapping(from, to, error);
            std::ptr::copy_nonoverlapping(from.add(behind), to.add(behind), size - behind);
        }
    }

    /// Writes all of it, as calls do that complete several requests.
    ///
    /// # Safety
    /// `to` has room for a status.
    pub unsafe fn write_all(&self, mpi: &Mpi, to: Ptr) {
        // SAFETY: by the caller's promise, and no longer than the longest.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to.cast(), mpi.status.size) };
    }

    /// Its bytes, which say the same in any process.
    pub fn as_slice(&self, mpi: &Mpi) -> &[u8] {
        &self.0[..mpi.status.size]
    }

    /// From such bytes.
    pub fn of_slice(bytes: &[u8]) -> Status {
        let mut status = Status::default();
        for (to, from) in status.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        status
    }

    /// `MPI_ERROR`.
    pub fn error(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.error)
    }

    /// `MPI_SOURCE`.
    pub fn source(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.source)
    }

    /// `MPI_TAG`.
    pub fn tag(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.tag)
    }

    fn field(&self, at: usize) -> c_int {
        c_int::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Bytes received.
    pub fn bytes(&self, mpi: &Mpi) -> i64 {
        let (mut copy, mut bytes) = (*self, 0);
        // SAFETY: a status that the library wrote, and a number of ours.
        unsafe { pmpi::get_elements_x(copy.as_mut_ptr(), mpi.byte, &mut bytes) };
        bytes.max(0)
    }

    /// Whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        let (mut copy, mut flag) = (*self, 0);
        // SAFETY: as above.
        unsafe { pmpi::test_cancelled(copy.as_mut_ptr(), &mut flag) };
        flag != 0
    }
}
