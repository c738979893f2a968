//! How `libveloc_mpi.so` is linked: with the name that it is installed under, and never unloaded,
//! since MPI keeps pointers to functions of it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libveloc-mpi.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
