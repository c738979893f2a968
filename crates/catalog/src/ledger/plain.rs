//! Plain memory for ledgers, in tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::LedgerMemory;

/// Words that several ledgers can have, as processes have shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Plain(Arc<[AtomicU64]>);

impl AsRef<[AtomicU64]> for Plain {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl Plain {
    /// Zeros.
    pub(crate) fn of(bytes: usize) -> Plain {
        Plain((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// The memory for one ledger more.
    pub(crate) fn words(&self) -> LedgerMemory {
        Box::new(self.clone())
    }

    /// Has what the other has now.
    pub(crate) fn copy_from(&self, other: &Plain) {
        for (to, from) in self.0.iter().zip(&*other.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
