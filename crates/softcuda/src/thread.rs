//! The state of a thread: its stack of current contexts, and whether it is a stream's thread that
//! is running the program's code.
//!
//! Nothing here has a destructor, so a call is still answered while the
//! thread (or the process) is being taken down.

use std::cell::Cell;

use crate::status::{DriverResult, ErrorCode};

const DEPTH: usize = 64;

struct ContextStack {
    used: Cell<usize>,
    handles: [Cell<u64>; DEPTH],
}

thread_local! {
    static STACK: ContextStack = const {
        ContextStack { used: Cell::new(0), handles: [const { Cell::new(0) }; DEPTH] }
    };
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The handle of the current context, if there is one.
pub(crate) fn current() -> Option<u64> {
    STACK.with(|stack| {
        let top = stack.used.get().checked_sub(1)?;
        Some(stack.handles[top].get()).filter(|handle| *handle != 0)
    })
}

/// Makes `handle` current above what was current before.
pub(crate) fn push(handle: u64) -> DriverResult {
    STACK.with(|stack| {
        let used = stack.used.get();
        let slot = stack.handles.get(used).ok_or(ErrorCode::OUT_OF_MEMORY)?;
        slot.set(handle);
        stack.used.set(used + 1);
        Ok(())
    })
}

/// Takes the current context off the stack.
pub(crate) fn pop() -> Option<u64> {
    let handle = current()?;
    STACK.with(|stack| stack.used.set(stack.used.get() - 1));
    Some(handle)
}

/// Replaces the current context; `None` takes it off the stack.
pub(crate) fn replace(handle: Option<u64>) -> DriverResult {
    match handle {
        None => {
            pop();
            Ok(())
        }
        Some(handle) => {
            pop();
            push(handle)
        }
    }
}

/// Marks this thread as running the program's code for a stream.
pub(crate) fn in_callback<T>(body: impl FnOnce() -> T) -> T {
    IN_CALLBACK.set(true);
    let value = body();
    IN_CALLBACK.set(false);
    value
}

/// Whether this thread is running the program's code for a stream.
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}
