//! What MPI reads and writes in a status.

use std::ffi::c_int;

use ::mpi::StatusLayout;
use message_log_core::counting::Sender;
use message_log_core::status::{MOST, SUCCESS};

use crate::mpi::MpiProperties;
use crate::pmpi::{self, Ptr};

pub(crate) use message_log_core::status::StatusBytes;

const _: () = assert!(StatusLayout::MAX_SIZE <= MOST);

/// A status of the process's MPI library.
pub(crate) trait MpiStatus: Sized {
    /// A pointer for the library to write to.
    fn as_mut_ptr(&mut self) -> Ptr;

    /// Reads a status.
    ///
    /// # Safety
    /// `from` points to a status.
    unsafe fn read(mpi: &MpiProperties, from: Ptr) -> Self;

    /// Writes it for the application, except `MPI_ERROR`, which calls that complete one request leave
    /// unchanged.
    ///
    /// # Safety
    /// `to` is `MPI_STATUS_IGNORE` or has room for a status.
    unsafe fn write(&self, mpi: &MpiProperties, to: Ptr);

    /// Writes all of it, as calls that complete several requests do.
    ///
    /// # Safety
    /// `to` has room for a status.
    unsafe fn write_all(&self, mpi: &MpiProperties, to: Ptr);

    /// `MPI_ERROR`.
    fn error(&self, mpi: &MpiProperties) -> c_int;

    /// `MPI_SOURCE` and `MPI_TAG`.
    fn sender(&self, mpi: &MpiProperties) -> Sender;

    /// Bytes received.
    fn received(&self, mpi: &MpiProperties) -> i64;

    /// Whether the request was cancelled.
    fn is_cancelled(&self) -> bool;
}

impl MpiStatus for StatusBytes {
    #[inline(always)]
    fn as_mut_ptr(&mut self) -> Ptr {
        self.bytes_mut().as_mut_ptr().cast()
    }

    #[inline(always)]
    unsafe fn read(mpi: &MpiProperties, from: Ptr) -> StatusBytes {
        let mut status = StatusBytes::default();
        let (from, to) = (from.cast::<u8>(), status.bytes_mut().as_mut_ptr());
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

    unsafe fn write(&self, mpi: &MpiProperties, to: Ptr) {
        if to as usize == mpi.numbers.status_ignore {
            return;
        }
        let (error, size) = (mpi.status.error, mpi.status.size);
        let behind = error + size_of::<c_int>();
        // SAFETY: by the caller's promise; both ranges lie in a status.
        unsafe {
            let (from, to) = (self.bytes().as_ptr(), to.cast::<u8>());
            std::ptr::copy_nonoverlapping(from, to, error);
            std::ptr::copy_nonoverlapping(from.add(behind), to.add(behind), size - behind);
        }
    }

    unsafe fn write_all(&self, mpi: &MpiProperties, to: Ptr) {
        // SAFETY: by the caller's promise, and no longer than the longest.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes().as_ptr(), to.cast(), mpi.status.size) };
    }

    fn error(&self, mpi: &MpiProperties) -> c_int {
        field(self, mpi.status.error)
    }

    #[inline]
    fn sender(&self, mpi: &MpiProperties) -> Sender {
        Sender { rank: field(self, mpi.status.source), tag: field(self, mpi.status.tag) }
    }

    #[inline]
    fn received(&self, mpi: &MpiProperties) -> i64 {
        if let Some(at) = mpi.bytes_at {
            let bytes = long(self, at);
            // Larger values include other fields.
            if bytes <= u64::from(u32::MAX) {
                return bytes as i64;
            }
        }
        bytes_said(self, mpi)
    }

    fn is_cancelled(&self) -> bool {
        let (mut copy, mut flag) = (*self, 0);
        // SAFETY: a status that the library wrote, and an integer of ours.
        unsafe { pmpi::test_cancelled(copy.as_mut_ptr(), &mut flag) };
        flag != 0
    }
}

/// The offset of the number of received bytes (below 2^32, not cancelled), if the library's status has a known
/// layout. `None`: only MPI's function can tell.
pub(crate) fn bytes_at(mpi: &MpiProperties) -> Option<usize> {
    let at = mpi.status.bytes?;
    let is_there = |bytes: i64| {
        let mut status = StatusBytes::default();
        // SAFETY: room for the longest status, and a type that always exists.
        let code = unsafe {
            pmpi::status_set_cancelled(status.as_mut_ptr(), 0);
            pmpi::status_set_elements_x(status.as_mut_ptr(), mpi.byte, bytes)
        };
        code == SUCCESS && long(&status, at) == bytes as u64 && bytes_said(&status, mpi) == bytes
    };
    [0, 8, 0x1234_5678, 0xfedc_ba98].into_iter().all(is_there).then_some(at)
}

#[inline(always)]
fn field(status: &StatusBytes, at: usize) -> c_int {
    let bytes = status.bytes();
    c_int::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn long(status: &StatusBytes, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&status.bytes()[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

#[inline(never)]
fn bytes_said(status: &StatusBytes, mpi: &MpiProperties) -> i64 {
    let (mut copy, mut bytes) = (*status, 0);
    // SAFETY: a status that the library wrote, and a number of ours.
    unsafe { pmpi::get_elements_x(copy.as_mut_ptr(), mpi.byte, &mut bytes) };
    bytes.max(0)
}
