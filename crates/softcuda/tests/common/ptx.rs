//! Kernels from PTX, run over bytes in device memory.

use std::ffi::{c_void, CString};
use std::ptr::{from_mut, null_mut};

use softcuda::abi::{CUfunction, CUmodule};
use softcuda::api::*;

use super::{allocate, configure, download, ok};

const BEGIN: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";
const REGISTERS: &str =
    ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .f64 %fd<9>;\n\
                         .reg .pred %p<3>;\nld.param.u64 %rd1, [k_0];\n";

/// A kernel that has the address of its bytes in `%rd1`.
pub(crate) fn kernel(name: &str, body: &str) -> String {
    format!(".visible .entry {name}(.param .u64 k_0)\n{{\n{REGISTERS}{body}\nret;\n}}\n")
}

pub(crate) fn module(text: &str) -> CUmodule {
    configure("KERNELS", "ptx");
    let (text, mut module) = (CString::new(format!("{BEGIN}{text}")).unwrap(), null_mut());
    ok(cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())));
    module
}

pub(crate) fn function(module: CUmodule, name: &str) -> (u32, CUfunction) {
    let (name, mut function) = (CString::new(name).unwrap(), null_mut());
    (cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())), function)
}

/// Runs a kernel with such a grid, such blocks, and so much shared memory: what the bytes are then, or the error.
pub(crate) fn launch(
    module: CUmodule,
    name: &str,
    [grid, block]: [[u32; 2]; 2],
    shared: u32,
    bytes: &[u8],
) -> Result<Vec<u8>, u32> {
    let (code, function) = function(module, name);
    ok(code);
    let mut address = allocate(bytes.len());
    ok(cu!(cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len())));
    let mut params = [from_mut(&mut address).cast::<c_void>()];
    let params = params.as_mut_ptr();
    let launched = cu!(cuLaunchKernel(
        function,
        grid[0],
        grid[1],
        1,
        block[0],
        block[1],
        1,
        shared,
        null_mut(),
        params,
        null_mut()
    ));
    match (launched, cuCtxSynchronize()) {
        (0, 0) => Ok(download(address, bytes.len())),
        (0, code) | (code, _) => Err(code),
    }
}
