//! The stack of this thread.

use std::cell::Cell;
use std::ffi::{c_int, c_void, CStr};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Stacks are not larger: what is farther away is not looked up.
const MOST: u64 = 1 << 30;
/// What the library's routines have on the stack between the application's and [`enter`] is not more.
const MOST_OF_CALL: u64 = 8 << 10;
/// And no more frames of them are there.
const MOST_FRAMES: usize = 64;

thread_local! {
    static STACK: Range<u64> = of_this_thread();
    /// Where the stack was when the application called last.
    static ENTERED: Cell<u64> = const { Cell::new(0) };
}

/// The application has called: its routines are above, and what the library has on the stack is below.
pub fn enter() {
    ENTERED.set(here());
}

#[inline(never)]
fn here() -> u64 {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)) as u64
}

/// Whether an address is on this thread's stack, below all routines of the application that run: what was there has
/// returned. What is that near to them that the library's own routines have it now may pass for one that runs
/// ([`is_left_closely`]).
pub fn is_left(address: u64) -> bool {
    let now = here();
    // Below the application's last call if that is under way; without it, below this routine.
    let entered = ENTERED.get().max(now);
    if address >= entered || entered - address > MOST {
        return false;
    }
    let on_stack = |stack: &Range<u64>| [now, entered, address].iter().all(|at| stack.contains(at));
    STACK.try_with(on_stack).unwrap_or(false)
}

/// Whether an address is below the routine that has called the library's function under way, whose name begins with
/// `prefix`, though not below what the library has on the stack: [`is_left`] for variables as small as that. It costs
/// microseconds, and knows nothing where the function's name is not known, as in a static library.
pub fn is_left_closely(address: u64, prefix: &CStr) -> bool {
    let entered = ENTERED.get();
    (entered..entered + MOST_OF_CALL).contains(&address)
        && end_of_caller(prefix).is_some_and(|end| address < end)
}

/// Where the stack of the routine ends that has called the function of this name.
fn end_of_caller(prefix: &CStr) -> Option<u64> {
    let mut search = StackSearch { prefix, frames: 0, is_next: false, end: None };
    // SAFETY: the function below takes what is passed here, and is called before this returns.
    unsafe { _Unwind_Backtrace(look_at_frame, (&raw mut search).cast()) };
    search.end
}

struct StackSearch<'a> {
    prefix: &'a CStr,
    frames: usize,
    /// The frame that was looked at is that of the function.
    is_next: bool,
    end: Option<u64>,
}

/// Goes on (0) to the frame of the routine that has called the function.
extern "C" fn look_at_frame(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: the caller passes its own, which nothing else uses meanwhile.
    let search = unsafe { &mut *search.cast::<StackSearch<'_>>() };
    if search.is_next {
        // SAFETY: the unwinder passes the frame that it is at.
        search.end = Some(unsafe { _Unwind_GetCFA(frame) } as u64);
        return 1;
    }
    // SAFETY: as above.
    let address = unsafe { _Unwind_GetIP(frame) };
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; what is found is written to `found`, whose zeros are values, too. A name
    // is a string of a library that is loaded, as one of its functions runs.
    let name = unsafe {
        libc::dladdr(address as *const c_void, found.as_mut_ptr());
        let name = (*found.as_ptr()).dli_sname;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    };
    search.is_next = name.is_some_and(|name| name.to_bytes().starts_with(search.prefix.to_bytes()));
    search.frames += 1;
    c_int::from(search.frames == MOST_FRAMES)
}

// Of the C++ ABI for exceptions (the unwinder that Rust's panics use), where a frame is a `_Unwind_Context`.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    /// The stack pointer of this frame: where what it has called begins.
    fn _Unwind_GetCFA(frame: *mut c_void) -> usize;
}

/// The addresses of this thread's stack; none where the system does not tell.
fn of_this_thread() -> Range<u64> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the thread asks about itself; the attributes are read only where the call has filled them in, and
    // destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut len);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if found != 0 {
            return 0..0;
        }
    }
    start as u64..start as u64 + len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of a variable of a routine that has returned when it is known.
    #[inline(never)]
    fn dangling() -> u64 {
        let large = std::hint::black_box([0_u8; 4096]);
        std::ptr::from_ref(&large) as u64
    }

    /// Catches a variable of a routine that runs, and one on the heap or of another thread, that pass for left.
    #[test]
    fn what_a_routine_had_is_left_when_it_returns() {
        let own = 1_u8;
        let heap = vec![1_u8; 10_000_000];
        let left = dangling();
        assert!(is_left(left));
        assert!(!is_left(std::ptr::from_ref(&own) as u64) && !is_left(heap.as_ptr() as u64));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!is_left(left) && is_left(dangling())));
        });
    }
}
