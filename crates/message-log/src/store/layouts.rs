//! Types with gaps in a restarted process, where handles differ: where their bytes are, and types made again.

use std::ffi::c_int;

use message_log_core::store::layout::{GappedTypes, MOST};
use message_log_core::target::Datatype;

use crate::mpi::MpiProperties;
use crate::pmpi;
use crate::types::{self, Owned};

/// The types of the process's MPI library.
pub(super) struct Layouts<'a>(pub &'a MpiProperties);

impl GappedTypes for Layouts<'_> {
    fn places(&self, datatype: &Datatype) -> Option<(i64, Vec<u64>)> {
        let Datatype { size, lb: first, .. } = *datatype;
        let (mut lb, mut span) = (0, 0);
        // SAFETY: an existing type, and integers of ours.
        unsafe { pmpi::type_get_true_extent(datatype.handle, &mut lb, &mut span) };
        let span = span as i64;
        if !(0..=MOST).contains(&size) || !(1..=MOST).contains(&span) {
            return None;
        }
        // Finds where each byte is packed to, by packing elements whose bytes contain their own offsets,
        // digit by digit.
        let mut element = vec![0u8; span as usize];
        let mut packed = vec![0u8; size as usize];
        let mut places = vec![0u64; size as usize];
        let mut shift = 0;
        while (span - 1) >> shift > 0 || shift == 0 {
            for (place, byte) in element.iter_mut().enumerate() {
                *byte = (place >> shift) as u8;
            }
            let at = (element.as_ptr() as usize).wrapping_sub(first as usize);
            // SAFETY: the element's bytes lie where one of the type at that address has them.
            unsafe { types::pack(datatype, self.0, at, &mut packed) }.ok()?;
            for (place, digit) in places.iter_mut().zip(&packed) {
                *place |= u64::from(*digit) << shift;
            }
            shift += 8;
        }
        Some((span, places))
    }

    fn with_gaps(&self, properties: Datatype, pieces: &[(i64, i64)]) -> Datatype {
        let lengths: Vec<c_int> = pieces.iter().map(|(_, len)| *len as c_int).collect();
        let places: Vec<isize> = pieces.iter().map(|(place, _)| *place as isize).collect();
        let (mut bytes, mut made) = (0usize, 0usize);
        let (at_bytes, at_made) = ((&raw mut bytes).cast(), (&raw mut made).cast());
        let (count, extent) = (lengths.len() as c_int, properties.extent as isize);
        let mpi = self.0;
        // SAFETY: as many lengths and displacements as the count, buffers as wide as any handle, and types
        // made here.
        let handle = unsafe {
            let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
            pmpi::type_create_hindexed(count, lengths, places, mpi.byte, at_bytes);
            pmpi::type_create_resized(mpi.read_handle(at_bytes), 0, extent, at_made);
            pmpi::type_commit(at_made);
            pmpi::type_free(at_bytes);
            mpi.read_handle(at_made)
        };
        Datatype { handle, owned: Some(Owned::new(mpi, handle)), ..properties }
    }
}
