//! The stack of this thread.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Stacks are not larger: what is farther away is not looked up.
const MOST: u64 = 1 << 30;

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
/// returned. What is that near to them that the library's own routines have it now may pass for one that runs.
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
