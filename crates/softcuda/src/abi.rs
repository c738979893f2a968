//! The driver's types as they cross the border.
//!
//! Handles and scalars are those of `cudarc`. Structures that hold
//! enumerations are declared again with plain integers in their place: a
//! caller may pass any value there, and a Rust `enum` that holds an unknown
//! one would be undefined behaviour before it could be checked.

use std::ffi::{c_int, c_void};

use cudarc::driver::sys;

pub use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmemGenericAllocationHandle, CUmodule,
    CUstream, CUuuid,
};

/// The return value of every driver function: a `CUresult` as a number.
pub type ResultCode = u32;

/// A function that a stream calls on the host, as in `cuLaunchHostFunc`.
pub type HostFunction = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// Where memory lives: `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Location {
    /// A `CUmemLocationType`.
    pub kind: u32,
    /// The device's ordinal.
    pub id: c_int,
}

/// The memory that `cuMemCreate` makes: `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocationProp {
    /// A `CUmemAllocationType`.
    pub kind: u32,
    /// The `CUmemAllocationHandleType`s the memory may be exported as.
    pub requested_handle_types: u32,
    /// The device that holds the memory.
    pub location: Location,
    /// For another operating system; not read.
    pub win32_handle_meta_data: *mut c_void,
    /// Compression and the like; not read.
    pub alloc_flags: [u8; 8],
}

impl AllocationProp {
    /// Ordinary device memory on `device`, which cannot be exported.
    pub fn on_device(device: CUdevice) -> Self {
        Self {
            kind: ALLOCATION_PINNED,
            requested_handle_types: 0,
            location: Location { kind: LOCATION_DEVICE, id: device },
            win32_handle_meta_data: std::ptr::null_mut(),
            alloc_flags: [0; 8],
        }
    }
}

/// A device's access to a mapped range: `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDesc {
    /// The device that is given access.
    pub location: Location,
    /// A `CUmemAccess_flags`.
    pub flags: u32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const LOCATION_DEVICE: u32 = sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE as u32;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const ALLOCATION_PINNED: u32 =
    sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED as u32;
/// `CU_MEM_ACCESS_FLAGS_PROT_NONE`.
pub const ACCESS_NONE: u32 = sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_NONE as u32;
/// `CU_MEM_ACCESS_FLAGS_PROT_READ`.
pub const ACCESS_READ: u32 = sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READ as u32;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub const ACCESS_READ_WRITE: u32 =
    sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32;

/// The handle of the legacy default stream when it is named (`CU_STREAM_LEGACY`).
pub const STREAM_LEGACY: usize = 1;
/// The handle of the per-thread default stream (`CU_STREAM_PER_THREAD`).
pub const STREAM_PER_THREAD: usize = 2;

const _: () = {
    use std::mem::size_of;
    assert!(size_of::<Location>() == size_of::<sys::CUmemLocation>());
    assert!(size_of::<AllocationProp>() == size_of::<sys::CUmemAllocationProp>());
    assert!(size_of::<AccessDesc>() == size_of::<sys::CUmemAccessDesc>());
};
