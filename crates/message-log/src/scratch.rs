//! Files for the part of the log beyond its memory limit, in the scratch directory of the job, if the
//! application uses the checkpoint library. The two libraries are not linked with each other; this one looks
//! up the other's table of functions by name.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::FromRawFd as _;

use message_abi::{reason, scratch, TableLookup};

/// An unnamed file of `len` bytes.
///
/// # Errors
/// There is no job with a scratch directory, or it is full.
pub(crate) fn make_file(len: usize) -> Result<File, String> {
    let table = match scratch::find() {
        TableLookup::Table(table) => table,
        TableLookup::Other => return Err("libveloc-client is of another version".to_owned()),
        TableLookup::Nothing => {
            return Err("with VELOC_Init and a scratch directory (libveloc-client) it would go \
                        to files"
                .to_owned())
        }
    };
    let mut descriptor: c_int = -1;
    // SAFETY: the pointers are valid during the call.
    reason::told(|text, room| unsafe { (table.file)(len, &mut descriptor, text, room) })?;
    // SAFETY: an open descriptor that is this caller's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
