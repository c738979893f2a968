//! What a crash leaves of arrays in files (`VELOC_Pmem_open`).

use std::path::Path;

use os::persistent::{found_in, Model};

use super::Finding;

const AREA: &str = "arrays";

/// Looks at the working directory: a program has its files of arrays where it likes.
pub(super) fn look() -> Finding {
    let finding = |found: String| Finding::ok(AREA, "here", found);
    match found_in(Path::new(".")) {
        Ok(domain) => {
            let crash = match domain.model {
                Model::Process => "process",
                Model::Power => "power",
                Model::Page => "page",
            };
            finding(format!(
                "VELOC_Pmem files here survive a crash of kind {crash}: {}",
                domain.why
            ))
        }
        Err(error) => {
            finding(format!("VELOC_Pmem files here survive a crash of the process alone: {error}"))
        }
    }
}
