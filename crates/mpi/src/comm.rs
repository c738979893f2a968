//! The MPI library of the process, and communicators.

use std::ffi::{c_int, c_void, CStr};

use super::abi::{Abi, Handle};
use super::calls::{call_query, function, Calls, Query};
use super::library::Library;
use errors::{Error, ErrorKind, Result};

/// Bytes of the length prefix of gathered data.
const LENGTH_PREFIX: usize = 4;

/// The functions, by handle width.
#[derive(Clone, Copy, Debug)]
enum Table {
    Wide(Calls<*mut c_void>),
    Narrow(Calls<c_int>),
}

/// The MPI library of this process.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    abi: Abi,
    table: Table,
    initialized: Query,
    finalized: Query,
    /// Predefined handles.
    comm_null: usize,
    comm_world: usize,
    int64: usize,
    byte: usize,
    min: usize,
    /// `MPI_STATUS_IGNORE`.
    status_ignore: usize,
}

/// A communicator.
///
/// Dropping it frees nothing, because freeing is collective: see [`Comm::free`].
#[derive(Clone, Debug)]
pub struct Comm {
    mpi: Mpi,
    handle: usize,
}

/// Calls the function of this name in the table of the library's handle width.
macro_rules! call {
    ($mpi:expr, $name:ident ( $($argument:expr),* )) => {
        match &$mpi.table {
            Table::Wide(calls) => calls.$name($($argument),*),
            Table::Narrow(calls) => calls.$name($($argument),*),
        }
    };
}

impl Mpi {
    /// The process's MPI library, if it is loaded and has all functions needed.
    pub fn find() -> Option<Mpi> {
        let library = Library::find()?;
        let found = Self::from_library(&library);
        if let Err(name) = found {
            log::warn!("MPI is left alone: its library has no {}", name.to_string_lossy());
        }
        found.ok()
    }

    /// All functions and constants, or the name of the first that is missing.
    fn from_library(library: &Library) -> std::result::Result<Mpi, &'static CStr> {
        let abi = library.abi();
        let handles = abi.handles();
        let constant = |constant, name| library.constant(constant).ok_or(name);
        Ok(Mpi {
            abi,
            table: match abi {
                Abi::OpenMpi | Abi::Standard => Table::Wide(Calls::from_library(library)?),
                Abi::Mpich => Table::Narrow(Calls::from_library(library)?),
            },
            // SAFETY: MPI declares both functions like this.
            initialized: unsafe { function(library, c"MPI_Initialized")? },
            // SAFETY: as above.
            finalized: unsafe { function(library, c"MPI_Finalized")? },
            comm_null: constant(handles.comm_null, c"MPI_COMM_NULL")?,
            comm_world: constant(handles.comm_world, c"MPI_COMM_WORLD")?,
            int64: constant(handles.int64, c"MPI_INT64_T")?,
            byte: constant(handles.byte, c"MPI_BYTE")?,
            min: constant(handles.min, c"MPI_MIN")?,
            status_ignore: abi.numbers().status_ignore,
        })
    }

    /// The error if there is no MPI library.
    pub fn not_found() -> Error {
        Error::invalid("there is no MPI in this process; VELOC_Init_single works without")
    }

    /// The C handle of a Fortran communicator.
    ///
    /// # Errors
    /// The library lacks the translating function.
    pub fn comm_of_fortran(&self, comm: c_int) -> Result<usize> {
        let name = match self.abi {
            // Handles are integers, and the translation is a macro.
            Abi::Mpich => return Ok(comm.bits()),
            Abi::OpenMpi => c"MPI_Comm_f2c",
            Abi::Standard => c"MPI_Comm_fromint",
        };
        let not_found = || {
            let name = name.to_string_lossy();
            Error::new(ErrorKind::NotFound, format!("the MPI library has no {name}"))
        };
        let found =
            Library::find().and_then(|library| library.symbol(name)).ok_or_else(not_found)?;
        // SAFETY: both libraries declare the function of that name like this.
        let translate: unsafe extern "C" fn(c_int) -> *mut c_void =
            unsafe { std::mem::transmute(found.as_ptr()) };
        // SAFETY: any integer may be passed; one that is no communicator gives a null handle.
        Ok(unsafe { translate(comm) } as usize)
    }

    /// The library's binary interface.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// This process's rank in `MPI_COMM_WORLD`.
    ///
    /// # Errors
    /// As [`Comm::rank`].
    pub fn world_rank(&self) -> Result<u32> {
        Comm { mpi: *self, handle: self.comm_world }.rank()
    }

    /// Whether `MPI_Init` has been called, even if `MPI_Finalize` was called later.
    ///
    /// # Errors
    /// `MPI_Initialized` failed.
    pub fn initialized(&self) -> Result<bool> {
        call_query(self.initialized, "MPI_Initialized")
    }

    /// Whether `MPI_Finalize` has been called.
    ///
    /// # Errors
    /// `MPI_Finalized` failed.
    pub fn finalized(&self) -> Result<bool> {
        call_query(self.finalized, "MPI_Finalized")
    }

    /// The communicator with this handle, which the application passed in a pointer-wide argument. It
    /// belongs to the application: the library communicates on a [duplicate](Comm::dup).
    ///
    /// # Errors
    /// The handle is `MPI_COMM_NULL` or null.
    ///
    /// # Safety
    /// `handle` is one of these two, or a communicator of this MPI library for as long as the result is
    /// used.
    pub unsafe fn comm(&self, handle: usize) -> Result<Comm> {
        // A narrow handle is only the lower half of the argument.
        let handle = match self.table {
            Table::Wide(_) => handle,
            Table::Narrow(_) => c_int::from_bits(handle).bits(),
        };
        if handle == self.comm_null || handle == 0 {
            return Err(Error::invalid("the communicator is MPI_COMM_NULL"));
        }
        Ok(Comm { mpi: *self, handle })
    }

    /// An error unless MPI is running: otherwise a call would abort the program.
    fn check_running(&self, name: &str) -> Result<()> {
        if !self.initialized()? {
            return Err(Error::invalid(format!("{name} is not possible before MPI_Init")));
        }
        if self.finalized()? {
            return Err(Error::invalid(format!("{name} is not possible after MPI_Finalize")));
        }
        Ok(())
    }
}

impl Comm {
    /// This process's rank in the communicator.
    ///
    /// # Errors
    /// `MPI_Comm_rank` failed, or MPI is not running.
    pub fn rank(&self) -> Result<u32> {
        self.mpi.check_running("MPI_Comm_rank")?;
        not_negative(call!(self.mpi, rank(self.handle))?, "MPI_Comm_rank")
    }

    /// The number of processes in the communicator.
    ///
    /// # Errors
    /// `MPI_Comm_size` failed, or MPI is not running.
    pub fn size(&self) -> Result<u32> {
        self.mpi.check_running("MPI_Comm_size")?;
        not_negative(call!(self.mpi, size(self.handle))?, "MPI_Comm_size")
    }

    /// Waits until all processes of the communicator have called this. Collective.
    ///
    /// # Errors
    /// `MPI_Barrier` failed, or MPI is not running.
    pub fn barrier(&self) -> Result<()> {
        self.mpi.check_running("MPI_Barrier")?;
        call!(self.mpi, barrier(self.handle))
    }

    /// The minimum of the processes' values. Collective.
    ///
    /// # Errors
    /// `MPI_Allreduce` failed, or MPI is not running.
    pub fn allreduce_min_i64(&self, value: i64) -> Result<i64> {
        self.allreduce_min([value]).map(|[least]| least)
    }

    /// The elementwise minimum of several values. Collective.
    ///
    /// # Errors
    /// Those of [`allreduce_min_i64`](Self::allreduce_min_i64).
    pub fn allreduce_min<const N: usize>(&self, mine: [i64; N]) -> Result<[i64; N]> {
        self.mpi.check_running("MPI_Allreduce")?;
        call!(self.mpi, allreduce(&mine, self.mpi.int64, self.mpi.min, self.handle))
    }

    /// Starts an elementwise minimum reduction; returns the request.
    pub(super) fn iallreduce(&self, mine: &[i64], least: &mut [i64]) -> Result<usize> {
        self.mpi.check_running("MPI_Iallreduce")?;
        call!(self.mpi, iallreduce(mine, least, self.mpi.int64, self.mpi.min, self.handle))
    }

    /// Starts an allgather; returns the request.
    pub(super) fn iallgather(&self, mine: &[i64], all: &mut [i64]) -> Result<usize> {
        self.mpi.check_running("MPI_Iallgather")?;
        call!(self.mpi, iallgather(mine, all, self.mpi.int64, self.handle))
    }

    /// Whether a request is complete.
    pub(super) fn test(&self, request: &mut usize) -> Result<bool> {
        self.mpi.check_running("MPI_Test")?;
        call!(self.mpi, test_request(request, self.mpi.status_ignore))
    }

    /// Waits until a request is complete.
    pub(super) fn wait(&self, request: &mut usize) -> Result<()> {
        self.mpi.check_running("MPI_Wait")?;
        call!(self.mpi, wait_request(request, self.mpi.status_ignore))
    }

    /// The bytes that each process passes, by rank; their lengths may differ. Collective. The buffers
    /// are sized for the longest, so no process should pass much.
    ///
    /// # Errors
    /// `MPI_Allreduce` or `MPI_Allgather` failed, or MPI is not running; [`ErrorKind::NoRoom`] on every
    /// process if one passes more than MPI can count.
    pub fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let longest = -self.allreduce_min_i64(-(bytes.len() as i64))?;
        let size = self.size()? as usize;
        if longest == 0 {
            return Ok(vec![Vec::new(); size]);
        }
        // Each record begins with its length.
        let record = longest as usize + LENGTH_PREFIX;
        if c_int::try_from(record).is_err() {
            let what = format!("MPI_Allgather of {longest} bytes");
            return Err(Error::new(ErrorKind::NoRoom, what));
        }
        let mut own = (bytes.len() as u32).to_le_bytes().to_vec();
        own.extend(bytes);
        own.resize(record, 0);
        let mut all = vec![0; record * size];
        call!(self.mpi, allgather(&own, &mut all, self.mpi.byte, self.handle))?;
        let one = |record: &[u8]| {
            let (len, bytes) = record.split_at(LENGTH_PREFIX);
            let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
            bytes.get(..len).map(<[u8]>::to_vec).ok_or_else(|| {
                Error::new(ErrorKind::System, format!("MPI_Allgather gave a length of {len}"))
            })
        };
        all.chunks(record).map(one).collect()
    }

    /// A duplicate of this communicator, with separate traffic. Collective.
    ///
    /// # Errors
    /// `MPI_Comm_dup` failed, or MPI is not running.
    pub fn dup(&self) -> Result<Comm> {
        self.mpi.check_running("MPI_Comm_dup")?;
        let handle = call!(self.mpi, dup(self.handle))?;
        Ok(Comm { mpi: self.mpi, handle })
    }

    /// Frees a communicator that [`dup`](Self::dup) made, and no other. Collective. After `MPI_Finalize`
    /// there is nothing left to free, which is success.
    ///
    /// # Errors
    /// `MPI_Comm_free` failed.
    pub fn free(self) -> Result<()> {
        if self.mpi.finalized()? {
            return Ok(());
        }
        call!(self.mpi, free(self.handle))
    }
}

/// A number that cannot be negative if MPI works.
fn not_negative(number: c_int, name: &str) -> Result<u32> {
    u32::try_from(number)
        .map_err(|_| Error::new(ErrorKind::System, format!("{name} gave the number {number}")))
}

#[cfg(test)]
mod tests;
