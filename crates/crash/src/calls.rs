//! The library's functions as the program calls them: from where, what it has marked, and where it goes on.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void, CStr};

use crate::state::{tracked, turn};
use crate::text::{fail, write_file, Text};

/// The library's function behind this one.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a name with NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        fail("link with -lveloc-crash before -lveloc-client: no ", name.to_bytes());
    }
    found
}

/// Whether this call is left out.
fn left_out(kind: &'static str, from: usize) -> bool {
    tracked().is_some_and(|mut state| state.call(kind, from))
}

/// A symbol that goes on to `$to` with one argument more behind its own: where it was called from.
macro_rules! with_caller {
    ($name:ident, $to:ident, $x86:literal, $arm:literal) => {
        #[unsafe(naked)]
        #[no_mangle]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            naked_asm!(concat!("mov ", $arm, ", x30"), "b {to}", to = sym $to);
        }
    };
}

with_caller!(VELOC_Pmem_flush, flush, "rcx", "x3");
with_caller!(VELOC_Pmem_drain, drain, "rsi", "x1");
with_caller!(VELOC_Pmem_mark, mark, "r8", "x4");

extern "C" fn flush(pmem: *mut c_void, at: *const c_void, bytes: usize, from: usize) -> c_int {
    type Flush = extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;
    if left_out("flush", from) {
        return 0;
    }
    // SAFETY: the library's function has this type.
    let flush = unsafe { std::mem::transmute::<*mut c_void, Flush>(next(c"VELOC_Pmem_flush")) };
    flush(pmem, at, bytes)
}

extern "C" fn drain(pmem: *mut c_void, from: usize) -> c_int {
    type Drain = extern "C" fn(*mut c_void) -> c_int;
    if left_out("drain", from) {
        return 0;
    }
    // SAFETY: the library's function has this type.
    let drain = unsafe { std::mem::transmute::<*mut c_void, Drain>(next(c"VELOC_Pmem_drain")) };
    drain(pmem)
}

extern "C" fn mark(
    pmem: *mut c_void,
    iteration: i64,
    scalars: *const f64,
    count: c_int,
    from: usize,
) -> c_int {
    type Mark = extern "C" fn(*mut c_void, i64, *const f64, c_int) -> c_int;
    let marked = if left_out("mark", from) {
        0
    } else {
        // SAFETY: the library's function has this type.
        let mark = unsafe { std::mem::transmute::<*mut c_void, Mark>(next(c"VELOC_Pmem_mark")) };
        mark(pmem, iteration, scalars, count)
    };
    if let (0, Some(mut state)) = (marked, tracked()) {
        state.marked = iteration;
    }
    marked
}

/// Tells the tool which iteration was found first.
fn found(iteration: *const i64) {
    let Some(mut state) = turn() else { return };
    if state.found || iteration.is_null() {
        return;
    }
    state.found = true;
    let Some(plan) = &state.plan else { return };
    // SAFETY: the library has just stored it.
    let text = Text::new().line("iteration", unsafe { *iteration });
    write_file(Text::new().push(plan.folder.as_bytes()).push(b"/found").c_str(), text.bytes());
}

#[no_mangle]
extern "C" fn VELOC_Pmem_recover(pmem: *mut c_void, iteration: *mut i64) -> c_int {
    type Recover = extern "C" fn(*mut c_void, *mut i64) -> c_int;
    let function = next(c"VELOC_Pmem_recover");
    // SAFETY: the library's function has this type.
    let ended = unsafe { std::mem::transmute::<*mut c_void, Recover>(function) }(pmem, iteration);
    if ended == 0 {
        found(iteration);
    }
    ended
}

#[no_mangle]
extern "C" fn VELOC_Pmem_restart(
    pmem: *mut c_void,
    name: *const c_char,
    iteration: *mut i64,
    version: *mut c_int,
) -> c_int {
    type Restart = extern "C" fn(*mut c_void, *const c_char, *mut i64, *mut c_int) -> c_int;
    let function = next(c"VELOC_Pmem_restart");
    // SAFETY: the library's function has this type.
    let restart = unsafe { std::mem::transmute::<*mut c_void, Restart>(function) };
    let ended = restart(pmem, name, iteration, version);
    if ended == 0 {
        found(iteration);
    }
    ended
}
