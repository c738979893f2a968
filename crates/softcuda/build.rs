//! Gives the shared library the name under which programs look for the CUDA
//! driver, and keeps it loaded once it is: its stream threads run code in it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
