//! `cargo +nightly fuzz run names`
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::file_names(input));
