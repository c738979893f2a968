//! Calls that the application has left otherwise than by their return: an error handler, or another
//! function that MPI calls for it, has jumped out of them (`longjmp`). What the library was doing then
//! is half done for ever.
//!
//! Such a call looks as if it were being worked on, and the next one as if it came from within it. The
//! stack tells them apart: what comes from within has a frame of this library's further up.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::null_mut;

/// What is said then.
pub const TEXT: &str = "a call of MPI's was left without its return (an error handler or another \
    function of the program's has jumped out of it), and nothing can be logged or replayed any more";

/// The unwinder's word for going on, and that of its end at the end of the stack.
const GO_ON: c_int = 0;
const END_OF_STACK: c_int = 5;

extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        walk: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    fn _Unwind_GetCFA(frame: *mut c_void) -> usize;
}

thread_local! {
    /// The thread's stack, once it was asked for: for a first thread that reads a file.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A walk up the stack.
#[derive(Debug)]
struct Walk {
    /// Where this library begins.
    own: usize,
    /// A frame of another object was seen.
    is_outside: bool,
    /// And one of this library behind that.
    is_within: bool,
    /// The highest address of a frame.
    top: usize,
}

/// Where the object begins that has this address.
fn object(address: usize) -> usize {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: room for what is found; any address may be asked for. Without an object it stays as it is,
    // and zeros are an answer.
    unsafe {
        libc::dladdr(address as *const c_void, found.as_mut_ptr());
        found.assume_init().dli_fbase as usize
    }
}

extern "C" fn each(frame: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its frame, and what it was called with.
    let (walk, address, top) =
        unsafe { (&mut *walk.cast::<Walk>(), _Unwind_GetIP(frame), _Unwind_GetCFA(frame)) };
    walk.top = walk.top.max(top);
    match object(address) == walk.own {
        false => walk.is_outside = true,
        true => walk.is_within |= walk.is_outside,
    }
    GO_ON
}

/// Whether the call is gone from the stack in which this address was. If the stack cannot be walked, or
/// is another thread's, it is not.
#[cold]
#[inline(never)]
pub fn is_left(address: usize) -> bool {
    if !is_on_own_stack(address) {
        return false;
    }
    let own = object(is_left as *const () as usize);
    let mut walk = Walk { own, is_outside: false, is_within: false, top: 0 };
    // SAFETY: a function as the unwinder wants it, which does not unwind, and what it gets.
    let end = unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    // A frame that nobody can unwind is the end, too: then the walk may not have come as far.
    let is_whole = end == END_OF_STACK && walk.top > address;
    is_whole && walk.is_outside && !walk.is_within
}

/// Whether an address is in the stack of the calling thread.
fn is_on_own_stack(address: usize) -> bool {
    // A thread that is ending has none any more.
    let known = STACK.try_with(Cell::get).unwrap_or_default();
    let stack = match known {
        (0, 0) => own_stack(),
        (begin, end) => begin..end,
    };
    let _ = STACK.try_with(|known| known.set((stack.start, stack.end)));
    stack.contains(&address)
}

/// The stack of the calling thread; empty if it cannot be told.
fn own_stack() -> Range<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut begin, mut len) = (null_mut(), 0);
    // SAFETY: the calling thread, and places of ours; the attributes are destroyed if they were made.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut begin, &mut len);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    begin as usize..begin as usize + len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a stack of another thread that is taken for the caller's.
    #[test]
    fn stacks_are_told_apart() {
        let here = 0u8;
        let address = &raw const here as usize;
        assert!(is_on_own_stack(address));
        let other = std::thread::spawn(move || (is_on_own_stack(address), is_left(address)));
        assert_eq!(other.join().unwrap(), (false, false));
    }
}
