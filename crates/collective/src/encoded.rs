//! Whether the files of an earlier job are what their parities were made of: a byte that has changed
//! is found where erasure coding can give it back.

use std::path::Path;

use super::protect::Rebuilding;
use ::files::Files;
use erasure::encoding::Member;
use errors::ErrorKind;
use os::files;

impl Rebuilding<'_> {
    /// Whether this process's scratch file of a version is what its parity file says, if both
    /// exist: its proof may be older than the version. Read once, unless this job wrote it or
    /// compared its SHA-256. A bad file goes if persistent has a good one, then the nearest.
    pub(super) fn is_as_encoded(&self, name: &str, version: i32) -> bool {
        let store = self.engine.files();
        if self.is_known(name, version) {
            return true;
        }
        let Some(header) = self.own_header(name, version) else { return true };
        let encoding = &header.encoding;
        let Some(place) = encoding.index_of(self.node.own()) else { return true };
        let member = &encoding.members[place];
        let Ok(scratch) = store.places().scratch_path(name, version) else { return true };
        if is_member(store, &scratch, member).unwrap_or(true) {
            return true;
        }
        let path = scratch.display();
        store
            .warnings()
            .once(format!("{path}: the file is not the one that its parities were made of"));
        let persistent = store.places().persistent_path(name, version);
        if persistent.is_none_or(|path| is_member(store, &path, member) != Some(true)) {
            return false;
        }
        let _naming = self.engine.file_side().lock_names();
        let removed = files::remove(&scratch);
        removed.map(|()| true).unwrap_or_else(|error| {
            log::warn!("{error}");
            false
        })
    }
}

/// Whether a file has the length and the digest of a member's. `None`: there is no file.
fn is_member(store: &Files, path: &Path, member: &Member) -> Option<bool> {
    match store.checks().has_content(path, member.len, member.digest, || Ok(())) {
        Ok(is_one) => Some(is_one),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            log::warn!("{error}");
            Some(false)
        }
    }
}
