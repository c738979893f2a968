//! The binary interfaces of MPI libraries: how wide a handle is, and what the predefined ones are.

use std::ffi::{c_int, c_void, CStr};

/// Which binary interface an MPI library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// Open MPI: handles are pointers, the predefined ones the addresses of variables.
    OpenMpi,
    /// MPICH and its descendants (Intel, Cray, MVAPICH): handles are `int`.
    Mpich,
    /// The standard interface of MPI 5: handles are as wide as pointers, the predefined ones small
    /// numbers.
    Standard,
}

/// A predefined handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// This number.
    Value(usize),
    /// The address of this variable of the library.
    Address(&'static CStr),
}

/// The predefined handles that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// `MPI_COMM_NULL`.
    pub comm_null: Constant,
    /// `MPI_INT64_T`.
    pub int64: Constant,
    /// `MPI_BYTE`.
    pub byte: Constant,
    /// `MPI_MIN`.
    pub min: Constant,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: usize,
}

impl Abi {
    /// The predefined handles.
    pub const fn constants(self) -> Constants {
        use Constant::{Address, Value};
        match self {
            Abi::OpenMpi => Constants {
                comm_null: Address(c"ompi_mpi_comm_null"),
                int64: Address(c"ompi_mpi_int64_t"),
                byte: Address(c"ompi_mpi_byte"),
                min: Address(c"ompi_mpi_op_min"),
                status_ignore: 0,
            },
            Abi::Mpich => Constants {
                comm_null: Value(0x0400_0000),
                int64: Value(0x4c00_083a),
                byte: Value(0x4c00_010d),
                min: Value(0x5800_0002),
                status_ignore: 1,
            },
            Abi::Standard => Constants {
                comm_null: Value(0x100),
                int64: Value(0x258),
                byte: Value(0x247),
                min: Value(0x22),
                status_ignore: 0,
            },
        }
    }
}

/// A handle as the library's functions take it.
pub trait Handle: Copy {
    /// From the bits of an argument as wide as a pointer.
    fn from_bits(bits: usize) -> Self;
    /// Back to such bits.
    fn bits(self) -> usize;
}

/// Open MPI's and the standard interface's.
impl Handle for *mut c_void {
    fn from_bits(bits: usize) -> Self {
        bits as *mut c_void
    }

    fn bits(self) -> usize {
        self as usize
    }
}

/// MPICH's. An `int` in a register as wide as a pointer: the upper half can hold anything.
impl Handle for c_int {
    fn from_bits(bits: usize) -> Self {
        bits as u32 as c_int
    }

    fn bits(self) -> usize {
        self as u32 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_handles_lose_the_upper_half() {
        let world = 0x4400_0000;
        assert_eq!(c_int::from_bits(0xdead_beef_4400_0000_u64 as usize), world);
        assert_eq!(world.bits(), 0x4400_0000);
        // Handles of communicators that the application made have the sign bit set.
        assert_eq!(c_int::from_bits(0x8400_0001), -0x7bff_ffff);
        assert_eq!(c_int::from_bits(0x8400_0001).bits(), 0x8400_0001);
    }

    #[test]
    fn wide_handles_keep_all_bits() {
        let bits = 0x7fff_dead_beef_0010_u64 as usize;
        assert_eq!(<*mut c_void>::from_bits(bits).bits(), bits);
    }

    #[test]
    fn constants() {
        let mpich = Abi::Mpich.constants();
        assert_eq!(mpich.comm_null, Constant::Value(0x0400_0000));
        assert_eq!(mpich.int64, Constant::Value(0x4c00_083a));
        assert_eq!(mpich.byte, Constant::Value(0x4c00_010d));
        assert_eq!(mpich.min, Constant::Value(0x5800_0002));
        let standard = Abi::Standard.constants();
        assert_eq!(standard.comm_null, Constant::Value(0x100));
        assert_eq!(standard.int64, Constant::Value(0x258));
        assert_eq!(standard.byte, Constant::Value(0x247));
        assert_eq!(standard.min, Constant::Value(0x22));
        assert_eq!(mpich.status_ignore, 1);
        assert_eq!(standard.status_ignore, 0);
        assert_eq!(Abi::OpenMpi.constants().min, Constant::Address(c"ompi_mpi_op_min"));
    }
}
