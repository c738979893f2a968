//! How `libveloc_crash.so` is linked: with the name that it is installed under.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libveloc-crash.so");
}
