//! A checkpoint that is being taken.

use std::sync::Arc;

use super::deferred::DeferredCapture;
use super::shared::Shared;
use super::spool::Spool;
use catalog::{Id, Region};
use errors::Result;
use format::identity::Identity;

/// An open checkpoint. If it is dropped before it is committed, for instance by a panic, it is aborted.
#[derive(Debug)]
pub struct Open {
    shared: Arc<Shared>,
    /// Whether it is neither committed nor aborted.
    pub(super) under_way: bool,
    /// The checkpoint's number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The run that makes it.
    pub(super) identity: Identity,
    /// The regions captured so far.
    pub regions: Vec<Region>,
    /// Whether it is copied to persistent; `None`: not decided yet.
    persist: Option<bool>,
    /// The file that it is written to directly, if any.
    pub(crate) spool: Option<Box<Spool>>,
    /// The deferred part of the capture.
    pub(crate) deferred: DeferredCapture,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.under_way {
            return;
        }
        if let Some(spool) = self.spool.take() {
            spool.discard();
        }
        // Nothing may be copied any more when its room is free.
        drop(std::mem::take(&mut self.deferred));
        self.shared.catalog.step(|state| state.captures().abort(self.id));
        self.shared.host_side.pace.call_ends();
    }
}

impl Open {
    /// Decides whether it is copied to persistent once it is complete; `Some(false)` also if that is decided later.
    /// `None`: as this process's clock says when it is asked first.
    pub fn decide_to_persist(&mut self, persist: Option<bool>) {
        self.persist = persist;
    }

    /// Whether it is copied to persistent once it is complete.
    pub(super) fn is_to_persist(&mut self) -> bool {
        *self.persist.get_or_insert_with(|| self.shared.file_side.is_to_persist())
    }

    /// Whether that is not ruled out by now.
    pub(super) fn may_persist(&self) -> bool {
        self.persist != Some(false)
    }

    pub(super) fn begin(shared: &Arc<Shared>, name: &str, version: i32) -> Result<Open> {
        let may_replace = shared.file_side.files.rights().may_replace(name);
        let (id, identity) = shared.catalog.begin(|state| {
            if let Some(failure) = state.take_failure() {
                return Err(failure.within("failed in the background"));
            }
            let id = state.captures().open(name, version);
            if may_replace {
                state.captures().may_replace(id);
            }
            Ok((id, state.checkpoints().identity(id)))
        })?;
        Ok(Open {
            shared: shared.clone(),
            under_way: true,
            id,
            name: name.to_owned(),
            version,
            identity,
            regions: Vec::new(),
            persist: None,
            spool: None,
            deferred: DeferredCapture::default(),
        })
    }
}
