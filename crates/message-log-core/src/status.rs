//! Statuses, stored with all private fields as the MPI library wrote them.

use std::ffi::c_int;

/// MPI_SUCCESS, in every interface.
pub const SUCCESS: c_int = 0;

/// Bytes of the longest status of any library.
pub const MOST: usize = 32;

/// A status, large enough for any library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct StatusBytes([u8; MOST]);

impl StatusBytes {
    /// Its bytes, which are valid in any process.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8; MOST] {
        &self.0
    }

    /// Its bytes, for writing.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8; MOST] {
        &mut self.0
    }

    /// From its first bytes.
    pub fn of_slice(bytes: &[u8]) -> StatusBytes {
        let mut status = StatusBytes::default();
        for (to, from) in status.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        status
    }
}
