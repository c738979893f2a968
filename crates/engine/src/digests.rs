//! Digests of the blocks of checkpoints, by which the next one leaves out what is the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use catalog::Id;
use os::sync::Mutex;

/// The digests of a checkpoint's regions.
#[derive(Debug)]
pub(super) struct RegionDigests {
    pub(super) id: Id,
    /// Its number in the chain.
    pub(super) number: u64,
    /// By region: its size, and a digest of each block.
    pub(super) of_regions: BTreeMap<i32, (u64, Vec<u128>)>,
}

/// The digests of the last checkpoint of each name.
#[derive(Debug, Default)]
pub(super) struct LastDigests(pub(super) Mutex<HashMap<Arc<str>, RegionDigests>>);
