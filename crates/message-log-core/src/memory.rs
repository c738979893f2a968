//! Fallible allocation for data that grows with the program's calls: out of memory, a call fails instead of
//! the process.

use std::alloc::{alloc, Layout};
use std::collections::TryReserveError;

/// Out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> NoMemory {
        NoMemory
    }
}

/// A box of a value.
///
/// # Errors
/// Out of memory.
pub fn boxed<T>(value: T) -> Result<Box<T>, NoMemory> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the layout has bytes.
    let at = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
    if at.is_null() {
        return Err(NoMemory);
    }
    // SAFETY: memory for one value, which was allocated as a box allocates.
    unsafe {
        at.write(value);
        Ok(Box::from_raw(at))
    }
}

/// An empty list with this capacity.
///
/// # Errors
/// Out of memory.
pub fn room<T>(len: usize) -> Result<Vec<T>, NoMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(len)?;
    Ok(list)
}

/// Appends to a list.
///
/// # Errors
/// Out of memory; the list is unchanged.
pub fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
    list.try_reserve(1)?;
    list.push(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_a_box() {
        let text = boxed(String::from("of the heap"));
        assert_eq!(text.map(|text| text.len()), Ok(11));
        assert_eq!(boxed([7u64; 3]).map(|three| *three), Ok([7; 3]));
    }

    /// More than any machine has: refused without asking the system.
    #[test]
    fn there_is_no_end_of_memory() {
        assert_eq!(room::<u64>(usize::MAX / 8).map(|list| list.len()), Err(NoMemory));
        let mut list = vec![1];
        assert_eq!((push(&mut list, 2), list), (Ok(()), vec![1, 2]));
    }
}
