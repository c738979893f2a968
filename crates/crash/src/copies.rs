//! `memcpy`, `memmove` and `memset` of the whole process: compilers do not make known what these store.

/// The symbols. Tests have those of the C library.
#[cfg(not(test))]
mod exported {
    use std::ffi::{c_int, c_void};

    use crate::plain;
    use crate::state::tracked;

    unsafe fn copied(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
        match tracked() {
            Some(mut state) => state.copy(to as usize, from as usize, bytes),
            // SAFETY: the caller's promise.
            None => unsafe { plain::copy(to.cast(), from.cast(), bytes) },
        }
        to
    }

    unsafe fn filled(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void {
        match tracked() {
            Some(mut state) => state.set(to as usize, byte as u8, bytes),
            // SAFETY: the caller's promise.
            None => unsafe { plain::set(to.cast(), byte as u8, bytes) },
        }
        to
    }

    macro_rules! copies {
        ($($name:ident)*) => {$(
            #[no_mangle]
            unsafe extern "C" fn $name(
                to: *mut c_void,
                from: *const c_void,
                bytes: usize,
            ) -> *mut c_void {
                // SAFETY: the caller's promise.
                unsafe { copied(to, from, bytes) }
            }
        )*};
    }

    macro_rules! fills {
        ($($name:ident)*) => {$(
            #[no_mangle]
            unsafe extern "C" fn $name(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void {
                // SAFETY: the caller's promise.
                unsafe { filled(to, byte, bytes) }
            }
        )*};
    }

    copies! { memcpy memmove __tsan_memcpy __tsan_memmove }
    fills! { memset __tsan_memset }

    /// With `_FORTIFY_SOURCE`: the room is known.
    macro_rules! checked {
        ($($name:ident $with:ident $what:ident: $type:ty;)*) => {$(
            #[no_mangle]
            unsafe extern "C" fn $name(
                to: *mut c_void,
                $what: $type,
                bytes: usize,
                room: usize,
            ) -> *mut c_void {
                if bytes > room {
                    crate::text::fail("a copy is longer than its room: ", stringify!($name).as_bytes());
                }
                // SAFETY: the caller's promise.
                unsafe { $with(to, $what, bytes) }
            }
        )*};
    }

    checked! {
        __memcpy_chk copied from: *const c_void;
        __memmove_chk copied from: *const c_void;
        __memset_chk filled byte: c_int;
    }
}
