//! The differences between the binary interfaces of MPI: the width of handles, the values of predefined
//! handles and constants, and the layout of a status.
//!
//! The values are from the `mpi.h` of Open MPI 4 and 5, of MPICH 3.4 to 5 and its derivatives, and of
//! the standard ABI.

use std::ffi::{c_int, c_void, CStr};

/// The binary interface of an MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// Open MPI: handles are pointers, the predefined ones the addresses of variables.
    OpenMpi,
    /// MPICH and its descendants (Intel, Cray, MVAPICH): handles are `int`.
    Mpich,
    /// The standard ABI of MPI 5: handles are as wide as pointers, the predefined ones small numbers.
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

/// The predefined handles that are needed, by their names without `MPI_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say it.
pub struct Handles {
    pub comm_null: Constant,
    pub comm_world: Constant,
    pub comm_self: Constant,
    pub request_null: Constant,
    pub message_null: Constant,
    pub message_no_proc: Constant,
    pub datatype_null: Constant,
    pub file_null: Constant,
    pub byte: Constant,
    pub int64: Constant,
    pub min: Constant,
}

/// The predefined constants that are needed, by their names without `MPI_`. Those that stand for an
/// address are pointer-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say it.
pub struct Numbers {
    pub status_ignore: usize,
    pub statuses_ignore: usize,
    pub in_place: usize,
    pub any_source: c_int,
    pub any_tag: c_int,
    pub proc_null: c_int,
    pub root: c_int,
    pub undefined: c_int,
    pub err_other: c_int,
    pub err_in_status: c_int,
    pub thread_multiple: c_int,
    pub combiner_named: c_int,
    pub cart: c_int,
    pub graph: c_int,
    pub dist_graph: c_int,
}

/// The offsets in bytes of the public fields of `MPI_Status`; the rest is private to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLayout {
    /// Bytes of a status.
    pub size: usize,
    /// Offset of `MPI_SOURCE`.
    pub source: usize,
    /// Offset of `MPI_TAG`.
    pub tag: usize,
    /// Offset of `MPI_ERROR`.
    pub error: usize,
    /// Offset of the 64-bit number of received bytes, if its upper half is 0: MPICH marks cancelled
    /// requests there. `None` if the layout is unknown.
    pub bytes: Option<usize>,
}

impl StatusLayout {
    /// Size of the largest status of any interface, in bytes.
    pub const MAX_SIZE: usize = 32;
}

impl Abi {
    /// Bytes of a handle.
    pub const fn handle_width(self) -> usize {
        match self {
            Abi::OpenMpi | Abi::Standard => size_of::<*mut c_void>(),
            Abi::Mpich => size_of::<c_int>(),
        }
    }

    /// The bits of a handle in a pointer-wide argument that the library reads: the upper half of a
    /// narrow handle is arbitrary.
    pub const fn truncate(self, bits: usize) -> usize {
        match self {
            Abi::OpenMpi | Abi::Standard => bits,
            Abi::Mpich => bits as u32 as usize,
        }
    }

    /// The predefined handles.
    pub const fn handles(self) -> Handles {
        use Constant::{Address, Value};
        match self {
            Abi::OpenMpi => Handles {
                comm_null: Address(c"ompi_mpi_comm_null"),
                comm_world: Address(c"ompi_mpi_comm_world"),
                comm_self: Address(c"ompi_mpi_comm_self"),
                request_null: Address(c"ompi_request_null"),
                message_null: Address(c"ompi_message_null"),
                message_no_proc: Address(c"ompi_message_no_proc"),
                datatype_null: Address(c"ompi_mpi_datatype_null"),
                file_null: Address(c"ompi_mpi_file_null"),
                byte: Address(c"ompi_mpi_byte"),
                int64: Address(c"ompi_mpi_int64_t"),
                min: Address(c"ompi_mpi_op_min"),
            },
            Abi::Mpich => Handles {
                comm_null: Value(0x0400_0000),
                comm_world: Value(0x4400_0000),
                comm_self: Value(0x4400_0001),
                request_null: Value(0x2c00_0000),
                message_null: Value(0x2c00_0000),
                message_no_proc: Value(0x6c00_0000),
                datatype_null: Value(0x0c00_0000),
                file_null: Value(0),
                byte: Value(0x4c00_010d),
                int64: Value(0x4c00_083a),
                min: Value(0x5800_0002),
            },
            Abi::Standard => Handles {
                comm_null: Value(0x100),
                comm_world: Value(0x101),
                comm_self: Value(0x102),
                request_null: Value(0x180),
                message_null: Value(0x128),
                message_no_proc: Value(0x129),
                datatype_null: Value(0x200),
                file_null: Value(0x118),
                byte: Value(0x247),
                int64: Value(0x258),
                min: Value(0x22),
            },
        }
    }

    /// The predefined numbers.
    pub const fn numbers(self) -> Numbers {
        match self {
            Abi::OpenMpi => Numbers {
                status_ignore: 0,
                statuses_ignore: 0,
                in_place: 1,
                any_source: -1,
                any_tag: -1,
                proc_null: -2,
                root: -4,
                undefined: -32766,
                err_other: 16,
                err_in_status: 18,
                thread_multiple: 3,
                combiner_named: 0,
                cart: 1,
                graph: 2,
                dist_graph: 3,
            },
            Abi::Mpich => Numbers {
                status_ignore: 1,
                statuses_ignore: 1,
                in_place: usize::MAX,
                any_source: -2,
                any_tag: -1,
                proc_null: -1,
                root: -3,
                undefined: -32766,
                err_other: 15,
                err_in_status: 17,
                thread_multiple: 3,
                combiner_named: 1,
                cart: 2,
                graph: 1,
                dist_graph: 3,
            },
            Abi::Standard => Numbers {
                status_ignore: 0,
                statuses_ignore: 0,
                in_place: 1,
                any_source: -1,
                any_tag: -2,
                proc_null: -3,
                root: -4,
                undefined: -32766,
                err_other: 16,
                err_in_status: 19,
                thread_multiple: 4096,
                combiner_named: 101,
                cart: 211,
                graph: 212,
                dist_graph: 213,
            },
        }
    }

    /// The layout of a status.
    pub const fn status(self) -> StatusLayout {
        match self {
            Abi::OpenMpi => StatusLayout { size: 24, source: 0, tag: 4, error: 8, bytes: Some(16) },
            Abi::Mpich => StatusLayout { size: 20, source: 8, tag: 12, error: 16, bytes: Some(0) },
            Abi::Standard => StatusLayout { size: 32, source: 0, tag: 4, error: 8, bytes: None },
        }
    }
}

/// A handle in the type that the library's functions take.
pub(crate) trait Handle: Copy {
    /// Converts from a pointer-wide argument.
    fn from_bits(bits: usize) -> Self;
    /// Converts to a pointer-wide value.
    fn bits(self) -> usize;
}

/// Of Open MPI and the standard ABI.
impl Handle for *mut c_void {
    fn from_bits(bits: usize) -> Self {
        bits as *mut c_void
    }

    fn bits(self) -> usize {
        self as usize
    }
}

/// Of MPICH: an `int` in a pointer-wide register, whose upper half is arbitrary.
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

    const ALL: [Abi; 3] = [Abi::OpenMpi, Abi::Mpich, Abi::Standard];

    #[test]
    fn narrow_handles_lose_the_upper_half() {
        let world = 0x4400_0000;
        let argument = 0xdead_beef_4400_0000_u64 as usize;
        assert_eq!(c_int::from_bits(argument), world);
        assert_eq!(Abi::Mpich.truncate(argument), 0x4400_0000);
        assert_eq!(world.bits(), 0x4400_0000);
        // Handles of communicators created by the application have the sign bit set.
        assert_eq!(c_int::from_bits(0x8400_0001), -0x7bff_ffff);
        assert_eq!(c_int::from_bits(0x8400_0001).bits(), 0x8400_0001);
    }

    #[test]
    fn wide_handles_keep_all_bits() {
        let bits = 0x7fff_dead_beef_0010_u64 as usize;
        assert_eq!(<*mut c_void>::from_bits(bits).bits(), bits);
        assert_eq!(Abi::OpenMpi.truncate(bits), bits);
        assert_eq!(Abi::Standard.truncate(bits), bits);
    }

    #[test]
    fn handles_of_mpich_and_of_the_standard() {
        let mpich = Abi::Mpich.handles();
        assert_eq!(mpich.comm_null, Constant::Value(0x0400_0000));
        assert_eq!(mpich.comm_world, Constant::Value(0x4400_0000));
        assert_eq!(mpich.request_null, Constant::Value(0x2c00_0000));
        assert_eq!(mpich.byte, Constant::Value(0x4c00_010d));
        let standard = Abi::Standard.handles();
        assert_eq!(standard.comm_null, Constant::Value(0x100));
        assert_eq!(standard.request_null, Constant::Value(0x180));
        assert_eq!(standard.byte, Constant::Value(0x247));
        assert_eq!(Abi::OpenMpi.handles().min, Constant::Address(c"ompi_mpi_op_min"));
    }

    /// Wildcards and sentinels of one kind must differ.
    #[test]
    fn ranks_that_are_none_differ() {
        for abi in ALL {
            let numbers = abi.numbers();
            let ranks = [numbers.any_source, numbers.proc_null, numbers.root, numbers.undefined];
            for (i, rank) in ranks.iter().enumerate() {
                assert!(*rank < 0, "{abi:?}: {rank}");
                assert!(!ranks[..i].contains(rank), "{abi:?}: {rank}");
            }
            let kinds = [numbers.cart, numbers.graph, numbers.dist_graph];
            assert!(kinds[0] != kinds[1] && kinds[1] != kinds[2] && kinds[0] != kinds[2]);
        }
    }

    #[test]
    fn fields_of_a_status_are_in_it() {
        for abi in ALL {
            let layout = abi.status();
            let mut fields = [layout.source, layout.tag, layout.error];
            fields.sort_unstable();
            assert!(fields[0] + 4 <= fields[1] && fields[1] + 4 <= fields[2]);
            assert!(fields[2] + 4 <= layout.size && layout.size <= StatusLayout::MAX_SIZE);
        }
    }
}
