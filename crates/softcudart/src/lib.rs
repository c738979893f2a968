//! A software stand-in for the CUDA runtime library, `libcudart.so.11.0`, `.12` and `.13`.
//!
//! It lets programs that nvcc has compiled, and linked with `-cudart shared`, run on the software device.
//! NVIDIA's own runtime cannot: it asks its driver to prove that it is NVIDIA's. This is no runtime for a
//! GPU, and has only what programs of this project's kind need; if a program needs more, the system's loader
//! names the missing function.
//!
//! It is a crate of its own, beside the driver's stand-in, so that it reaches the driver as every program
//! does: through the functions of whatever `libcuda.so.1` there is.
//!
//! * `registration` keeps what a program's constructors register, `fatbin` finds the PTX in it, and
//!   `launch` has kernels carried out;
//! * `memory`, `stream` and `device` are the rest of the interface, most of it passed on;
//! * `context` makes a device's primary context current where none is, `driver` finds the driver,
//!   and `answer` has the errors.

#![allow(non_snake_case, non_camel_case_types)] // As the runtime names them.

mod answer;
mod context;
mod device;
mod driver;
mod fatbin;
mod launch;
mod memory;
mod registration;
mod stream;

/// Returns 1. No other runtime has this function.
#[no_mangle]
pub extern "C" fn softcudart_is_software() -> std::ffi::c_int {
    1
}
