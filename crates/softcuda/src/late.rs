//! A device that is late on purpose (`SOFTCUDA_LATE`): it carries work out once somebody wants it.
//!
//! A stream's thread holds an operation back until that, or a later one of the stream, is wanted. A thread that comes
//! to a wait for another stream's operation wants that one, so all that comes before gets done. Work belongs to the
//! period in which it was queued, and periods change with the setting: the end of one lets go all that it held.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use crate::sync::{lock, wait};

/// The present period; the device is late in odd ones.
static PERIOD: AtomicU64 = AtomicU64::new(0);

/// How many calls wait for memory that is in use: whichever work uses it, none is held back meanwhile.
static IMPATIENT: Mutex<u64> = Mutex::new(0);
static LOOK_AGAIN: Condvar = Condvar::new();

/// The present period.
pub(crate) fn period() -> u64 {
    PERIOD.load(Ordering::Relaxed)
}

fn is_late(period: u64) -> bool {
    !period.is_multiple_of(2)
}

/// Whether the device is late now.
pub(crate) fn is_on() -> bool {
    is_late(period())
}

/// Begins a period, in which the device is late or not.
pub(crate) fn begin_period(late: bool) {
    let _waking = lock(&IMPATIENT);
    let next = period() + 1;
    PERIOD.store(if is_late(next) == late { next } else { next + 1 }, Ordering::Relaxed);
    LOOK_AGAIN.notify_all();
}

/// Blocks until work that was queued in `period` may be carried out.
pub(crate) fn hold_back(period: u64, is_wanted: impl Fn() -> bool) {
    if !is_late(period) {
        return;
    }
    let mut impatient = lock(&IMPATIENT);
    while *impatient == 0 && period == self::period() && !is_wanted() {
        impatient = wait(&LOOK_AGAIN, impatient);
    }
}

/// Has those that hold work back look again whether it is wanted.
pub(crate) fn look_again() {
    // What was queued in an earlier period is held back no more.
    if is_on() {
        let _waking = lock(&IMPATIENT);
        LOOK_AGAIN.notify_all();
    }
}

/// Lets all work go on until dropped.
pub(crate) struct Impatience(());

/// Lets all work go on.
pub(crate) fn be_impatient() -> Impatience {
    *lock(&IMPATIENT) += 1;
    LOOK_AGAIN.notify_all();
    Impatience(())
}

impl Drop for Impatience {
    fn drop(&mut self) {
        *lock(&IMPATIENT) -= 1;
    }
}
