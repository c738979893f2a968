//! What compilers call for each access with `-fsanitize=thread`, in place of the sanitizer's runtime.
//!
//! A call for a store comes before the store. Atomic operations are done here.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{fence, AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::SeqCst};

use crate::state::{access, access_range, turn};

/// Accesses within a line: they are aligned.
macro_rules! aligned {
    ($($name:ident $write:literal)*) => {$(
        #[no_mangle]
        extern "C" fn $name(address: usize) {
            access(address, $write);
        }
    )*};
}

/// Accesses that may lie in two.
macro_rules! unaligned {
    ($($name:ident $bytes:literal $write:literal)*) => {$(
        #[no_mangle]
        extern "C" fn $name(address: usize) {
            access_range(address, $bytes, $write);
        }
    )*};
}

aligned! {
    __tsan_read1 false __tsan_read2 false __tsan_read4 false __tsan_read8 false
    __tsan_write1 true __tsan_write2 true __tsan_write4 true __tsan_write8 true
    __tsan_volatile_read1 false __tsan_volatile_read2 false __tsan_volatile_read4 false
    __tsan_volatile_read8 false
    __tsan_volatile_write1 true __tsan_volatile_write2 true __tsan_volatile_write4 true
    __tsan_volatile_write8 true
    __tsan_read_write1 true __tsan_read_write2 true __tsan_read_write4 true __tsan_read_write8 true
    __tsan_vptr_read false
}

unaligned! {
    __tsan_read16 16 false __tsan_write16 16 true __tsan_read_write16 16 true
    __tsan_volatile_read16 16 false __tsan_volatile_write16 16 true
    __tsan_unaligned_read1 1 false __tsan_unaligned_read2 2 false __tsan_unaligned_read4 4 false
    __tsan_unaligned_read8 8 false __tsan_unaligned_read16 16 false
    __tsan_unaligned_write1 1 true __tsan_unaligned_write2 2 true __tsan_unaligned_write4 4 true
    __tsan_unaligned_write8 8 true __tsan_unaligned_write16 16 true
    __tsan_unaligned_read_write2 2 true __tsan_unaligned_read_write4 4 true
    __tsan_unaligned_read_write8 8 true __tsan_unaligned_read_write16 16 true
    __tsan_unaligned_volatile_read1 1 false __tsan_unaligned_volatile_read2 2 false
    __tsan_unaligned_volatile_read4 4 false __tsan_unaligned_volatile_read8 8 false
    __tsan_unaligned_volatile_read16 16 false
    __tsan_unaligned_volatile_write1 1 true __tsan_unaligned_volatile_write2 2 true
    __tsan_unaligned_volatile_write4 4 true __tsan_unaligned_volatile_write8 8 true
    __tsan_unaligned_volatile_write16 16 true
}

#[no_mangle]
extern "C" fn __tsan_read_range(address: usize, bytes: usize) {
    access_range(address, bytes, false);
}

#[no_mangle]
extern "C" fn __tsan_write_range(address: usize, bytes: usize) {
    access_range(address, bytes, true);
}

#[no_mangle]
extern "C" fn __tsan_vptr_update(address: usize, _value: *mut c_void) {
    access(address, true);
}

macro_rules! nothing {
    ($($name:ident)*) => {$(
        #[no_mangle]
        extern "C" fn $name(_: *mut c_void) {}
    )*};
}

nothing! {
    __tsan_init __tsan_func_exit __tsan_acquire __tsan_release __tsan_ignore_thread_begin
    __tsan_ignore_thread_end
}

#[no_mangle]
extern "C" fn __tsan_atomic_thread_fence(_order: c_int) {
    fence(SeqCst);
}

#[no_mangle]
extern "C" fn __tsan_atomic_signal_fence(_order: c_int) {
    std::sync::atomic::compiler_fence(SeqCst);
}

/// Atomic operations of one size. `$with` does one: it is given the object and a function of its value, and returns the
/// old value.
macro_rules! atomics {
    ($type:ty, $bytes:literal, $with:ident, $load:ident $store:ident $exchange:ident $add:ident $sub:ident
     $and:ident $or:ident $xor:ident $nand:ident $strong:ident $weak:ident $val:ident) => {
        #[no_mangle]
        unsafe extern "C" fn $load(at: *mut $type, _order: c_int) -> $type {
            access_range(at as usize, $bytes, false);
            // SAFETY: the program's atomic object.
            unsafe { $with(at, |_| None) }
        }

        #[no_mangle]
        unsafe extern "C" fn $store(at: *mut $type, value: $type, _order: c_int) {
            access_range(at as usize, $bytes, true);
            // SAFETY: as above.
            unsafe { $with(at, |_| Some(value)) };
        }

        atomics! { @changes $type, $bytes, $with,
            $exchange(_old, value) value, $add(old, value) old.wrapping_add(value),
            $sub(old, value) old.wrapping_sub(value), $and(old, value) old & value,
            $or(old, value) old | value, $xor(old, value) old ^ value,
            $nand(old, value) !(old & value) }

        #[no_mangle]
        unsafe extern "C" fn $val(
            at: *mut $type,
            expected: $type,
            value: $type,
            _order: c_int,
            _failed: c_int,
        ) -> $type {
            access_range(at as usize, $bytes, true);
            // SAFETY: as above.
            unsafe { $with(at, |old| (old == expected).then_some(value)) }
        }

        atomics! { @compares $type, $val, $strong $weak }
    };
    (@changes $type:ty, $bytes:literal, $with:ident,
     $($name:ident($old:ident, $value:ident) $new:expr),*) => {$(
        #[no_mangle]
        unsafe extern "C" fn $name(at: *mut $type, $value: $type, _order: c_int) -> $type {
            access_range(at as usize, $bytes, true);
            // SAFETY: as above.
            unsafe { $with(at, |$old| Some($new)) }
        }
    )*};
    (@compares $type:ty, $val:ident, $($name:ident)*) => {$(
        #[no_mangle]
        unsafe extern "C" fn $name(
            at: *mut $type,
            expected: *mut $type,
            value: $type,
            order: c_int,
            failed: c_int,
        ) -> c_int {
            // SAFETY: the program's own variable beside its atomic object.
            let wanted = unsafe { *expected };
            // SAFETY: as above.
            let old = unsafe { $val(at, wanted, value, order, failed) };
            if old == wanted {
                return 1;
            }
            // SAFETY: as above.
            unsafe { *expected = old };
            0
        }
    )*};
}

macro_rules! with {
    ($($name:ident $type:ty, $atomic:ty;)*) => {$(
        /// # Safety
        /// The program's atomic object.
        #[inline(always)]
        unsafe fn $name(at: *mut $type, change: impl Fn($type) -> Option<$type>) -> $type {
            // SAFETY: the caller's promise.
            let object = unsafe { <$atomic>::from_ptr(at) };
            object.fetch_update(SeqCst, SeqCst, change).unwrap_or_else(|old| old)
        }
    )*};
}

with! { with8 u8, AtomicU8; with16 u16, AtomicU16; with32 u32, AtomicU32; with64 u64, AtomicU64; }

/// As the others, in the simulation's turn: only accesses that were compiled so are atomic to each other.
///
/// # Safety
/// The program's atomic object.
unsafe fn with128(at: *mut u128, change: impl Fn(u128) -> Option<u128>) -> u128 {
    let _turn = turn();
    // SAFETY: the caller's promise; others wait for their turn.
    let old = unsafe { at.read_volatile() };
    if let Some(new) = change(old) {
        // SAFETY: as above.
        unsafe { at.write_volatile(new) };
    }
    old
}

macro_rules! sizes {
    ($($type:ty, $bytes:literal, $with:ident, [$($name:ident)*];)*) => {$(
        atomics! { $type, $bytes, $with, $($name)* }
    )*};
}

sizes! {
    u8, 1, with8, [
        __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add
        __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or
        __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand __tsan_atomic8_compare_exchange_strong
        __tsan_atomic8_compare_exchange_weak __tsan_atomic8_compare_exchange_val];
    u16, 2, with16, [
        __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add
        __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or
        __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand __tsan_atomic16_compare_exchange_strong
        __tsan_atomic16_compare_exchange_weak __tsan_atomic16_compare_exchange_val];
    u32, 4, with32, [
        __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add
        __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or
        __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand __tsan_atomic32_compare_exchange_strong
        __tsan_atomic32_compare_exchange_weak __tsan_atomic32_compare_exchange_val];
    u64, 8, with64, [
        __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add
        __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or
        __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand __tsan_atomic64_compare_exchange_strong
        __tsan_atomic64_compare_exchange_weak __tsan_atomic64_compare_exchange_val];
    u128, 16, with128, [
        __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange
        __tsan_atomic128_fetch_add __tsan_atomic128_fetch_sub __tsan_atomic128_fetch_and
        __tsan_atomic128_fetch_or __tsan_atomic128_fetch_xor __tsan_atomic128_fetch_nand
        __tsan_atomic128_compare_exchange_strong __tsan_atomic128_compare_exchange_weak
        __tsan_atomic128_compare_exchange_val];
}
