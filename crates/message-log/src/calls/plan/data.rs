//! The data of collective calls: elements, and blocks for each process.

use std::ffi::c_int;

use crate::pmpi::{Aint, HandleWord, Ptr};

/// Elements that a call sends or receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// The address of the first one.
    pub buf: Ptr,
    /// How many; per process where there are several.
    pub count: i64,
    /// The datatype of the elements.
    pub datatype: HandleWord,
}

impl Elements {
    /// With a count of either width.
    pub(crate) fn new(buf: Ptr, count: impl Into<i64>, datatype: HandleWord) -> Elements {
        Elements { buf, count: count.into(), datatype }
    }
}

/// Counts for each process, of either width.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProcessCounts {
    /// `const int *`.
    Narrow(*const c_int),
    /// `const MPI_Count *` and `const MPI_Aint *`.
    Wide(*const i64),
}

impl From<*const c_int> for ProcessCounts {
    fn from(counts: *const c_int) -> ProcessCounts {
        ProcessCounts::Narrow(counts)
    }
}

impl From<*const i64> for ProcessCounts {
    fn from(counts: *const i64) -> ProcessCounts {
        ProcessCounts::Wide(counts)
    }
}

impl From<*const Aint> for ProcessCounts {
    fn from(counts: *const Aint) -> ProcessCounts {
        ProcessCounts::Wide(counts.cast())
    }
}

impl ProcessCounts {
    /// # Safety
    /// There are more than `n` counts.
    pub(super) unsafe fn get(self, n: usize) -> i64 {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                ProcessCounts::Narrow(counts) => i64::from(counts.add(n).read()),
                ProcessCounts::Wide(counts) => counts.add(n).read(),
            }
        }
    }
}

/// One block of elements for each process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessBlocks {
    /// The base of the displacements.
    pub buf: Ptr,
    /// The number of elements of each block.
    pub counts: ProcessCounts,
    /// The displacements of the blocks, in elements.
    pub places: ProcessCounts,
    /// The type of the elements.
    pub datatype: HandleWord,
}

impl ProcessBlocks {
    /// With counts and places of either width.
    pub(crate) fn new(
        buf: Ptr,
        counts: impl Into<ProcessCounts>,
        places: impl Into<ProcessCounts>,
        datatype: HandleWord,
    ) -> ProcessBlocks {
        ProcessBlocks { buf, counts: counts.into(), places: places.into(), datatype }
    }
}
