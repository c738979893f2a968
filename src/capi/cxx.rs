//! Functions for the C++ layer in `cpp/` beyond the C interface. Not in the header: the layer is
//! the only caller. `cpp/src/abi.h` declares these functions to it.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::boundary::{
    call_back, guarded, has_client, report, status, string, with_client, with_name,
};
use super::job::start_logging;
use super::restart::{newest, search};
use super::{VELOC_FAILURE, VELOC_SUCCESS};
use client::callbacks::{Object, WrittenBytes};
use config::Config;
use errors::{Error, Result};

/// Bytes that a function of the layer's has for the reason of its failure, the final NUL included.
const REASON_BYTES: usize = 256;

/// An object that the layer writes and reads, as its table of functions.
#[repr(C)]
#[derive(Debug)]
pub struct VELOC_Cxx_object {
    /// The first argument of the functions.
    pub context: *mut c_void,
    /// Writes the object. On success (0) there are so many bytes there until `forget`.
    pub write: unsafe extern "C" fn(
        context: *mut c_void,
        written: *mut VELOC_Cxx_written,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Frees what `write` has made.
    pub forget: unsafe extern "C" fn(buffer: *mut c_void),
    /// Makes the object what the bytes say; 0 on success, and then a reason is what the application should be told.
    pub read: unsafe extern "C" fn(
        context: *mut c_void,
        bytes: *const c_void,
        len: usize,
        reason: *mut c_char,
        room: usize,
    ) -> c_int,
    /// Frees the context.
    pub destroy: unsafe extern "C" fn(context: *mut c_void),
}

// SAFETY: the layer promises that its functions can be called from any thread, one at a time: the
// client's lock sees to the latter.
unsafe impl Send for VELOC_Cxx_object {}
// SAFETY: as above.
unsafe impl Sync for VELOC_Cxx_object {}

/// The bytes of an object that was written.
#[repr(C)]
#[derive(Debug)]
pub struct VELOC_Cxx_written {
    /// The argument of `forget`.
    pub buffer: *mut c_void,
    /// The bytes.
    pub bytes: *const c_void,
    /// The number of bytes.
    pub len: usize,
}

/// The bytes of an object, until they are forgotten.
#[derive(Debug)]
struct ObjectBytes {
    written: VELOC_Cxx_written,
    forget: unsafe extern "C" fn(*mut c_void),
}

impl AsRef<[u8]> for ObjectBytes {
    fn as_ref(&self) -> &[u8] {
        if self.written.len == 0 {
            return &[];
        }
        // SAFETY: the layer has said that so many bytes are there until it is told to forget them.
        unsafe { std::slice::from_raw_parts(self.written.bytes.cast(), self.written.len) }
    }
}

impl Drop for ObjectBytes {
    fn drop(&mut self) {
        // SAFETY: what `write` gave, once.
        unsafe { (self.forget)(self.written.buffer) };
    }
}

impl Object for VELOC_Cxx_object {
    fn write(&self) -> Result<WrittenBytes> {
        let mut written =
            VELOC_Cxx_written { buffer: std::ptr::null_mut(), bytes: std::ptr::null(), len: 0 };
        let mut reason = [0; REASON_BYTES];
        // SAFETY: the context is alive until `destroy`; both places are the function's meanwhile.
        let status = call_back(|| unsafe {
            (self.write)(self.context, &mut written, reason.as_mut_ptr(), reason.len())
        });
        if status != VELOC_SUCCESS {
            return Err(Error::invalid(format!("its serializer {}", said(&reason))));
        }
        Ok(Box::new(ObjectBytes { written, forget: self.forget }))
    }

    fn read(&self, bytes: &[u8]) -> Result<Option<String>> {
        let mut reason = [0; REASON_BYTES];
        // SAFETY: the context is alive until `destroy`; the bytes stay during the call.
        let status = call_back(|| unsafe {
            let room = reason.len();
            let text = reason.as_mut_ptr();
            (self.read)(self.context, bytes.as_ptr().cast(), bytes.len(), text, room)
        });
        let said = said(&reason);
        match status {
            VELOC_SUCCESS if said.is_empty() => Ok(None),
            VELOC_SUCCESS => Ok(Some(format!("its deserializer {said}"))),
            _ => Err(Error::invalid(format!("its deserializer {said}"))),
        }
    }
}

impl Drop for VELOC_Cxx_object {
    fn drop(&mut self) {
        // SAFETY: the context is the object's own, and nobody uses it any more.
        call_back(|| unsafe { (self.destroy)(self.context) });
    }
}

/// A text of the layer's.
fn said(reason: &[c_char; REASON_BYTES]) -> String {
    let bytes: Vec<u8> = reason.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Protects an object: for the checkpoints of a name alone, or, if the name is `default`, for any.
/// The object's context is this function's from here on, whatever it returns.
///
/// # Safety
/// `object` is a table whose functions keep their words; `name` is a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_protect(
    id: c_int,
    object: *const VELOC_Cxx_object,
    name: *const c_char,
) -> c_int {
    status("mem_protect", || {
        // SAFETY: the caller gives the object away.
        let object: Arc<dyn Object> = Arc::new(unsafe { object.read() });
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.protecting().protect_object(Some(name), id, object))
    })
}

/// `VELOC_Restart_test`, of another rank's checkpoints if `target_rank` is 0 or more; then not
/// collective.
///
/// # Safety
/// `name` is a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_restart_test(
    name: *const c_char,
    version: c_int,
    target_rank: c_int,
) -> c_int {
    let Ok(rank) = u32::try_from(target_rank) else {
        // SAFETY: the caller's promise.
        return unsafe { super::VELOC_Restart_test(name, version) };
    };
    newest("restart_test", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| search(client, name, version, Some(rank)))
    })
}

/// `VELOC_Restart`, of another rank's checkpoint if `target_rank` is 0 or more.
///
/// # Safety
/// `name` is a string that ends with NUL; protected memory is valid.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_restart(
    name: *const c_char,
    version: c_int,
    target_rank: c_int,
) -> c_int {
    status("restart", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) };
        let rank = u32::try_from(target_rank).ok();
        with_name(name, |client, name| client.restart(name, version, rank))
    })
}

/// `VELOC_Restart_begin`, of another rank's checkpoint if `target_rank` is 0 or more.
///
/// # Safety
/// `name` is a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_restart_begin(
    name: *const c_char,
    version: c_int,
    target_rank: c_int,
) -> c_int {
    status("restart_begin", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) };
        let rank = u32::try_from(target_rank).ok();
        with_name(name, |client, name| client.restart_begin(name, version, rank))
    })
}

/// `VELOC_Recover_size` for regions of any size; 0 if there is no such region.
#[no_mangle]
pub extern "C" fn VELOC_Cxx_recover_size(id: c_int) -> usize {
    let size = guarded("recover_size", || with_client(|client| client.recover_size(id)));
    size.map_or(0, |bytes| bytes as usize)
}

/// Whether there is a job: 1, 0, or VELOC_FAILURE where that cannot be asked.
#[no_mangle]
pub extern "C" fn VELOC_Cxx_has_job() -> c_int {
    guarded("get_client", has_client).map_or(VELOC_FAILURE, c_int::from)
}

/// The directory that a configuration has for `scratch`.
///
/// # Safety
/// `cfg_file` is a string that ends with NUL; `directory` has `room` bytes.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_scratch(
    cfg_file: *const c_char,
    directory: *mut c_char,
    room: usize,
) -> c_int {
    status("cached_file_t", || {
        // SAFETY: the caller's promise.
        let path = unsafe { string("cfg_file", cfg_file) }?;
        let config = Config::load(Path::new(path))?;
        let scratch = config.scratch.unwrap_or_default();
        let bytes = scratch.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.len() >= room {
            return Err(Error::invalid(format!(
                "{path}: scratch is {scratch:?}; it must have 1 to {} bytes",
                room - 1
            )));
        }
        // SAFETY: the path and its NUL fit into `room` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), directory.cast(), bytes.len());
            directory.add(bytes.len()).write(0);
        }
        Ok(())
    })
}

/// Reports what the layer has found wrong, as the library's own errors are; also where there has been no
/// job yet.
///
/// # Safety
/// Both are strings that end with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cxx_report(call: *const c_char, text: *const c_char) {
    // SAFETY: the caller's promise.
    let (call, text) = unsafe { (CStr::from_ptr(call), CStr::from_ptr(text)) };
    start_logging();
    report(&call.to_string_lossy(), Error::invalid(text.to_string_lossy()));
}

/// The layer's observer of checkpoints.
type Observer = unsafe extern "C" fn(name: *const c_char, version: c_int);

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Has a function called whenever a checkpoint has ended, by the thread that has ended it; it may
/// call the library. The first one counts.
#[no_mangle]
pub extern "C" fn VELOC_Cxx_observe(observer: Observer) {
    OBSERVER.get_or_init(|| observer);
}

/// Tells the observer, if there is one. The caller holds no lock.
pub(super) fn checkpoint_ended(name: &CStr, version: c_int) {
    if let Some(observer) = OBSERVER.get() {
        // SAFETY: a function of the layer's, which is never unloaded.
        unsafe { observer(name.as_ptr(), version) };
    }
}
