//! Statuses, stored with all private fields as the MPI library wrote them.

use std::ffi::c_int;

use mpi_abi::StatusLayout;

use crate::calls::SUCCESS;
use crate::mpi::Mpi;
use crate::pmpi::{self, Ptr};

/// A status, large enough for any library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Status([u8; StatusLayout::MAX_SIZE]);

impl Default for Status {
    fn default() -> Status {
        Status([0; StatusLayout::MAX_SIZE])
    }
}

impl Status {
    /// A pointer for the library to write to.
    pub(crate) fn as_mut_ptr(&mut self) -> Ptr {
        self.0.as_mut_ptr().cast()
    }

    /// Reads a status.
    ///
    /// # Safety
    /// `from` points to a status.
    #[inline(always)]
    pub(crate) unsafe fn read(mpi: &Mpi, from: Ptr) -> Status {
        let mut status = Status::default();
        let (from, to) = (from.cast::<u8>(), status.0.as_mut_ptr());
        // Copies of a constant length are inlined.
        // SAFETY: by the caller's promise, and no longer than the longest.
        unsafe {
            match mpi.status.size {
                20 => std::ptr::copy_nonoverlapping(from, to, 20),
                24 => std::ptr::copy_nonoverlapping(from, to, 24),
                size => std::ptr::copy_nonoverlapping(from, to, size),
            }
        };
        status
    }

    /// Writes it for the application, except `MPI_ERROR`, which calls that complete one request leave
    /// unchanged.
    ///
    /// # Safety
    /// `to` is `MPI_STATUS_IGNORE` or has room for a status.
    pub(crate) unsafe fn write(&self, mpi: &Mpi, to: Ptr) {
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

    /// Writes all of it, as calls that complete several requests do.
    ///
    /// # Safety
    /// `to` has room for a status.
    pub(crate) unsafe fn write_all(&self, mpi: &Mpi, to: Ptr) {
        // SAFETY: by the caller's promise, and no longer than the longest.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to.cast(), mpi.status.size) };
    }

    /// Its bytes, which are valid in any process.
    pub(crate) fn as_slice(&self, mpi: &Mpi) -> &[u8] {
        &self.0[..mpi.status.size]
    }

    /// From such bytes.
    pub(crate) fn of_slice(bytes: &[u8]) -> Status {
        let mut status = Status::default();
        for (to, from) in status.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        status
    }

    /// `MPI_ERROR`.
    pub(crate) fn error(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.error)
    }

    /// `MPI_SOURCE`.
    pub(crate) fn source(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.source)
    }

    /// `MPI_TAG`.
    pub(crate) fn tag(&self, mpi: &Mpi) -> c_int {
        self.field(mpi.status.tag)
    }

    fn field(&self, at: usize) -> c_int {
        c_int::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Bytes received.
    #[inline]
    pub(crate) fn bytes(&self, mpi: &Mpi) -> i64 {
        if let Some(at) = mpi.bytes_at {
            let bytes = self.long(at);
            // Larger values include other fields.
            if bytes <= u64::from(u32::MAX) {
                return bytes as i64;
            }
        }
        self.bytes_said(mpi)
    }

    /// The offset of the number of received bytes (below 2^32, not cancelled), if the library's status
    /// has a known layout. `None`: only MPI's function can tell.
    pub(crate) fn bytes_at(mpi: &Mpi) -> Option<usize> {
        let at = mpi.status.bytes?;
        let is_there = |bytes: i64| {
            let mut status = Status::default();
            // SAFETY: room for the longest status, and a type that always exists.
            let code = unsafe {
                pmpi::status_set_cancelled(status.as_mut_ptr(), 0);
                pmpi::status_set_elements_x(status.as_mut_ptr(), mpi.byte, bytes)
            };
            code == SUCCESS && status.long(at) == bytes as u64 && status.bytes_said(mpi) == bytes
        };
        [0, 8, 0x1234_5678, 0xfedc_ba98].into_iter().all(is_there).then_some(at)
    }

    #[inline(always)]
    fn long(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(bytes)
    }

    #[inline(never)]
    fn bytes_said(&self, mpi: &Mpi) -> i64 {
        let (mut copy, mut bytes) = (*self, 0);
        // SAFETY: a status that the library wrote, and a number of ours.
        unsafe { pmpi::get_elements_x(copy.as_mut_ptr(), mpi.byte, &mut bytes) };
        bytes.max(0)
    }

    /// Whether the request was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        let (mut copy, mut flag) = (*self, 0);
        // SAFETY: as above.
        unsafe { pmpi::test_cancelled(copy.as_mut_ptr(), &mut flag) };
        flag != 0
    }
}
