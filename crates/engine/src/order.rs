//! The order in which checkpoints will be read.

use std::sync::Arc;

use super::shared::Shared;
use crate::monitor::Catalog;

/// The order in which checkpoints will be read.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    catalog: &'a Catalog,
}

impl Shared {
    pub(crate) fn order(&self) -> Order<'_> {
        Order { catalog: &self.catalog }
    }
}

impl Order<'_> {
    /// This version will be read after those hinted before. It need not exist yet.
    pub fn hint(&self, name: &str, version: i32) {
        self.catalog.step(|state| state.up().hint(name, version));
    }

    /// Fetching ahead may begin.
    pub fn start_fetching(&self) {
        self.catalog.step(|state| state.up().start_fetching());
    }

    /// The first hinted checkpoint that never existed, and the number of such ones.
    pub fn hinted_in_vain(&self) -> Option<(Arc<str>, i32, usize)> {
        self.catalog.read(|state| state.checkpoints().hinted_in_vain())
    }

    /// Reserves `places` positions in the order, and returns the first.
    pub fn reserve_hints(&self, places: u64) -> u64 {
        self.catalog.step(|state| state.up().reserve_hints(places))
    }

    /// Sets the position at which each of these versions of a name will be read, if it will. All at once, so
    /// that none is fetched before the first is known. With `reads`, fetching continues.
    pub fn expect_reads(&self, name: &str, places: &[(i32, Option<u64>)], reads: bool) {
        self.catalog.step(|state| {
            for (version, place) in places {
                if let Some(id) = state.checkpoints().find(name, *version) {
                    state.up().expect(id, *place, reads);
                }
            }
        });
    }
}
