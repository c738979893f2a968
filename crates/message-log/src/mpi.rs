//! The process's MPI library: its binary interface and its predefined handles.

use std::ffi::c_int;

use ::mpi::{Abi, Constant, Library, Numbers, StatusLayout};

use crate::pmpi::{self, Ptr};
use crate::status;

/// Whether MPI is initialised and not finalized.
pub(crate) fn is_running() -> bool {
    pmpi::exists(c"PMPI_Initialized") && began_and_ended() == (true, false)
}

/// Whether `MPI_Init` and `MPI_Finalize` were called.
fn began_and_ended() -> (bool, bool) {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: integers of ours; both functions may be called at any time.
    unsafe {
        pmpi::initialized(&mut initialized);
        pmpi::finalized(&mut finalized);
    }
    (initialized != 0, finalized != 0)
}

/// The properties of the MPI library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MpiProperties {
    /// Its binary interface.
    pub abi: Abi,
    /// The predefined numbers.
    pub numbers: Numbers,
    /// Where the fields of a status are.
    pub status: StatusLayout,
    /// `MPI_COMM_NULL`.
    pub comm_null: usize,
    /// `MPI_COMM_WORLD`.
    pub comm_world: usize,
    /// `MPI_COMM_SELF`.
    pub comm_self: usize,
    /// `MPI_REQUEST_NULL`.
    pub request_null: usize,
    /// `MPI_MESSAGE_NULL`.
    pub message_null: usize,
    /// `MPI_MESSAGE_NO_PROC`.
    pub message_no_proc: usize,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: usize,
    /// `MPI_BYTE`.
    pub byte: usize,
    /// `MPI_INT64_T`.
    pub int64: usize,
    /// `MPI_MIN`.
    pub min: usize,
    /// This process's rank in `MPI_COMM_WORLD`.
    pub rank: c_int,
    /// The offset of the number of received bytes in a status, if known: see [`status::bytes_at`].
    pub bytes_at: Option<usize>,
}

impl MpiProperties {
    /// The library, if MPI is initialised and its thread level is below `MPI_THREAD_MULTIPLE`.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn find() -> Result<MpiProperties, String> {
        if !pmpi::exists(c"PMPI_Initialized") {
            return Err("there is no MPI in this process".into());
        }
        let library = Library::find().ok_or("there is no MPI in this process")?;
        let mut level = 0;
        let (initialized, finalized) = began_and_ended();
        if !initialized || finalized {
            let when = if finalized { "after MPI_Finalize" } else { "before MPI_Init" };
            return Err(format!("it is called {when}"));
        }
        if let Some(name) = pmpi::lacking() {
            return Err(format!("the MPI library has no {}", name.to_string_lossy()));
        }
        let abi = library.abi();
        let numbers = abi.numbers();
        // SAFETY: an integer of ours, between MPI_Init and MPI_Finalize.
        unsafe { pmpi::query_thread(&mut level) };
        if level >= numbers.thread_multiple {
            return Err("MPI_THREAD_MULTIPLE: calls of several threads at a time have no order \
                        that could be replayed"
                .into());
        }
        let handles = abi.handles();
        let handle = |constant: Constant| {
            library.constant(constant).ok_or_else(|| format!("MPI has no {constant:?}"))
        };
        let comm_world = handle(handles.comm_world)?;
        let mut rank = 0;
        // SAFETY: an integer of ours, and a communicator that always exists.
        unsafe { pmpi::comm_rank(comm_world, &mut rank) };
        let mut mpi = MpiProperties {
            abi,
            numbers,
            status: abi.status(),
            comm_null: handle(handles.comm_null)?,
            comm_world,
            comm_self: handle(handles.comm_self)?,
            request_null: handle(handles.request_null)?,
            message_null: handle(handles.message_null)?,
            message_no_proc: handle(handles.message_no_proc)?,
            datatype_null: handle(handles.datatype_null)?,
            byte: handle(handles.byte)?,
            int64: handle(handles.int64)?,
            min: handle(handles.min)?,
            rank,
            bytes_at: None,
        };
        mpi.bytes_at = status::bytes_at(&mpi);
        Ok(mpi)
    }

    /// Reads a handle.
    ///
    /// # Safety
    /// `from` points to a handle.
    pub(crate) unsafe fn read_handle(&self, from: Ptr) -> usize {
        // SAFETY: by the caller's promise; as wide as handles are.
        unsafe {
            match self.abi {
                Abi::Mpich => from.cast::<u32>().read() as usize,
                Abi::OpenMpi | Abi::Standard => from.cast::<usize>().read(),
            }
        }
    }

    /// Writes a handle.
    ///
    /// # Safety
    /// `to` has room for a handle.
    pub(crate) unsafe fn write_handle(&self, to: Ptr, handle: usize) {
        // SAFETY: by the caller's promise; as wide as handles are.
        unsafe {
            match self.abi {
                Abi::Mpich => to.cast::<u32>().write(handle as u32),
                Abi::OpenMpi | Abi::Standard => to.cast::<usize>().write(handle),
            }
        }
    }

    /// A pointer to the nth handle of an array.
    pub(crate) fn nth_handle(&self, array: Ptr, n: usize) -> Ptr {
        array.wrapping_byte_add(n * self.abi.handle_width())
    }

    /// A pointer to the nth status of an array.
    pub(crate) fn nth_status(&self, array: Ptr, n: usize) -> Ptr {
        array.wrapping_byte_add(n * self.status.size)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A fake MPI.
    pub(crate) fn mpi() -> MpiProperties {
        let abi = Abi::Mpich;
        MpiProperties {
            abi,
            numbers: abi.numbers(),
            status: abi.status(),
            comm_null: 0,
            comm_world: 1,
            comm_self: 2,
            request_null: 3,
            message_null: 4,
            message_no_proc: 5,
            datatype_null: 6,
            byte: 7,
            int64: 8,
            min: 9,
            rank: 0,
            bytes_at: None,
        }
    }
}
