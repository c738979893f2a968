//! The library's functions as the program calls them: from where, what it has marked, and where it goes on.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void, CStr};

use crate::state::{access_range, tracked, turn};
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

/// Calls the library, unless this call is left out.
fn around(kind: &'static str, from: usize, call: impl FnOnce() -> c_int) -> c_int {
    if tracked().is_some_and(|mut state| state.call(kind, from)) {
        return 0;
    }
    let ended = call();
    if let Some(mut state) = tracked() {
        state.called(kind, from);
    }
    ended
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

with_caller!(__tsan_func_entry, entered, "rsi", "x1");
with_caller!(VELOC_Pmem_flush, flush, "rcx", "x3");
with_caller!(VELOC_Pmem_drain, drain, "rsi", "x1");
with_caller!(VELOC_Pmem_mark, mark, "r8", "x4");

/// A function was entered, in which the call of this stands.
extern "C" fn entered(_from: usize, within: usize) {
    if let Some(mut state) = tracked() {
        state.entered(within);
    }
}

extern "C" fn flush(pmem: *mut c_void, at: *const c_void, bytes: usize, from: usize) -> c_int {
    type Flush = extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;
    // SAFETY: the library's function has this type.
    let flush = unsafe { std::mem::transmute::<*mut c_void, Flush>(next(c"VELOC_Pmem_flush")) };
    around("flush", from, || flush(pmem, at, bytes))
}

extern "C" fn drain(pmem: *mut c_void, from: usize) -> c_int {
    type Drain = extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: the library's function has this type.
    let drain = unsafe { std::mem::transmute::<*mut c_void, Drain>(next(c"VELOC_Pmem_drain")) };
    around("drain", from, || drain(pmem))
}

extern "C" fn mark(
    pmem: *mut c_void,
    iteration: i64,
    scalars: *const f64,
    count: c_int,
    from: usize,
) -> c_int {
    type Mark = extern "C" fn(*mut c_void, i64, *const f64, c_int) -> c_int;
    // SAFETY: the library's function has this type.
    let mark = unsafe { std::mem::transmute::<*mut c_void, Mark>(next(c"VELOC_Pmem_mark")) };
    let marked = around("mark", from, || mark(pmem, iteration, scalars, count));
    if let (0, Some(mut state)) = (marked, tracked()) {
        state.marked = iteration;
    }
    marked
}

/// Tells the tool where the program goes on: the last time that it has asked.
fn found(ended: c_int, iteration: *const i64) {
    let Some(state) = turn() else { return };
    let Some(plan) = &state.plan else { return };
    let none = ended != 0 || iteration.is_null();
    // SAFETY: the library has just stored it.
    let iteration = if none { -1 } else { unsafe { *iteration } };
    let text = Text::new().line("iteration", iteration);
    write_file(Text::new().push(plan.folder.as_bytes()).push(b"/found").c_str(), text.bytes());
}

#[no_mangle]
extern "C" fn VELOC_Pmem_recover(pmem: *mut c_void, iteration: *mut i64) -> c_int {
    type Recover = extern "C" fn(*mut c_void, *mut i64) -> c_int;
    let function = next(c"VELOC_Pmem_recover");
    // SAFETY: the library's function has this type.
    let ended = unsafe { std::mem::transmute::<*mut c_void, Recover>(function) }(pmem, iteration);
    found(ended, iteration);
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
    found(ended, iteration);
    ended
}

/// Words that the library is about to read or store itself.
fn words(at: *const u64, count: usize, write: bool) {
    if !at.is_null() {
        access_range(at as usize, count.saturating_mul(8), write);
    }
}

#[no_mangle]
extern "C" fn VELOC_Pmem_block_sums(
    data: *const u64,
    count: usize,
    block: usize,
    sums: *mut u64,
) -> c_int {
    type Sums = extern "C" fn(*const u64, usize, usize, *mut u64) -> c_int;
    words(data, count, false);
    words(sums, count.div_ceil(block.max(1)), true);
    let function = next(c"VELOC_Pmem_block_sums");
    // SAFETY: the library's function has this type.
    let of_blocks = unsafe { std::mem::transmute::<*mut c_void, Sums>(function) };
    of_blocks(data, count, block, sums)
}

#[no_mangle]
extern "C" fn VELOC_Pmem_matrix_sums(
    matrix: *const u64,
    rows: usize,
    columns: usize,
    stride: usize,
    of_rows: *mut u64,
    of_columns: *mut u64,
) -> c_int {
    type Sums = extern "C" fn(*const u64, usize, usize, usize, *mut u64, *mut u64) -> c_int;
    words(matrix, rows.saturating_mul(stride), false);
    words(of_rows, rows, true);
    words(of_columns, columns, true);
    let function = next(c"VELOC_Pmem_matrix_sums");
    // SAFETY: the library's function has this type.
    let sums = unsafe { std::mem::transmute::<*mut c_void, Sums>(function) };
    sums(matrix, rows, columns, stride, of_rows, of_columns)
}
