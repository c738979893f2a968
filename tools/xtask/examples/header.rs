//! Makes the headers, for `cargo xtask header`; with `--check` it only compares them.

use std::process::ExitCode;

use xtask::header;

fn main() -> ExitCode {
    let is_check = std::env::args().any(|argument| argument == "--check");
    match if is_check { header::check() } else { header::update() } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
