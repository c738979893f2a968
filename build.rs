//! Gives the shared library the name that programs built for VELOC look for, and keeps it loaded
//! once it is: its worker threads and thread-local values run code in it.
//!
//! That it exports `VELOC_*` and nothing else needs no script of ours: rustc exports the
//! `#[no_mangle]` functions of this crate alone, and `xtask/tests/exports.rs` checks it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libveloc-client.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
