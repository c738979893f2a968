//! The address ranges that queued work is going to touch.
//!
//! Each operation holds an [`InUse`] for every range it reads or writes, from
//! when it is queued until it is done. Whoever wants to take such a range
//! away asks here first.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Condvar, LazyLock, Mutex};

use crate::late;
use crate::sync::{lock, wait};

#[derive(Default)]
struct RangesInUse {
    next: u64,
    ranges: HashMap<u64, Range<u64>>,
}

impl RangesInUse {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.ranges.values().any(|used| used.start < range.end && range.start < used.end)
    }
}

static TABLE: LazyLock<Mutex<RangesInUse>> = LazyLock::new(Mutex::default);
static RELEASED: Condvar = Condvar::new();

/// Marks a range as in use until dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    id: u64,
}

/// Marks `range` as in use.
pub(crate) fn claim(range: Range<u64>) -> InUse {
    let mut table = lock(&TABLE);
    let id = table.next;
    table.next += 1;
    table.ranges.insert(id, range);
    InUse { id }
}

impl Drop for InUse {
    fn drop(&mut self) {
        lock(&TABLE).ranges.remove(&self.id);
        RELEASED.notify_all();
    }
}

/// Whether any part of `range` is in use.
pub(crate) fn touches(range: &Range<u64>) -> bool {
    lock(&TABLE).overlaps(range)
}

/// Blocks until no part of `range` is in use.
pub(crate) fn wait_until_free(range: &Range<u64>) {
    let _impatience = late::be_impatient();
    let mut table = lock(&TABLE);
    while table.overlaps(range) {
        table = wait(&RELEASED, table);
    }
}
