//! How the bytes of a region get to the host buffer: what the application asks for, as far as its memory and the
//! system allow it.

use std::borrow::Cow;
use std::time::Duration;

use super::regions::{Group, ProtectedMemory};
use engine::place::Place;
use engine::{Engine, Open};
use errors::Result;
use os::access::Mappings;
use policy::capture::Capture;

/// The ways of one checkpoint.
pub(super) struct Ways {
    /// For regions that have none of their own.
    common: Capture,
    /// The way of the last region, why, and the bytes of all.
    taken: Capture,
    reason: Cow<'static, str>,
    bytes: u64,
    /// The library has chosen it: nobody need be told of a region that goes another way.
    is_chosen: bool,
    /// The name and the version, for a timeline.
    of: Option<(String, i32)>,
    /// The process's mappings.
    mappings: Mappings,
}

impl Ways {
    /// Counts the checkpoint, whose call has taken so long.
    pub(super) fn count(self, engine: &Engine, blocked: Duration) {
        if self.bytes > 0 {
            let of = self.of.as_ref().map(|(name, version)| (name.as_str(), *version));
            engine.captures().count_snapshot(of, self.taken, self.reason, self.bytes, blocked);
        }
    }

    /// The ways of an open checkpoint of these regions, which ends with the call under way. `agrees`: the processes agree
    /// on it.
    pub(super) fn of(engine: &Engine, regions: &Group, open: &Open, agrees: bool) -> Ways {
        let wanted = engine.config().host_capture;
        let of = engine.trace().is_on().then(|| (open.name.clone(), open.version));
        let (common, reason) = match wanted {
            _ if engine.config().writes_directly() => (Capture::Copy, "mode = sync"),
            Some(way) => (way, way.row().reason),
            // Network cards write past the protection, and what is protected cannot be watched.
            None => {
                let unprotected = agrees || engine.config().incremental;
                engine.capturing().choose_capture(regions.bytes(), unprotected)
            }
        };
        Ways {
            common,
            taken: common,
            reason: reason.into(),
            bytes: 0,
            is_chosen: wanted.is_none(),
            of,
            mappings: Mappings::now(),
        }
    }

    /// The way of a region of plain host memory. If it does not get the one that the application asks for, this is
    /// said once.
    ///
    /// # Errors
    /// There is no thread for what is copied after the call.
    pub(super) fn way_of(
        &mut self,
        engine: &Engine,
        memory: &ProtectedMemory,
        place: &Place,
    ) -> Result<Capture> {
        let own = memory.terms.capture;
        let wanted = match engine.config().writes_directly() {
            true => Capture::Copy,
            false => own.unwrap_or(self.common),
        };
        if own.is_some() {
            self.reason = "VELOC_Mem_capture".into();
        }
        let way = match possible(engine, wanted, own.is_some(), &self.mappings, memory) {
            Ok(way) => way,
            Err((way, why)) => {
                let text = match why {
                    Why::System(why) => format!("host_capture: {why}"),
                    Why::Memory(why) => format!("host_capture: region {} {why}", place.id),
                };
                if !self.is_chosen || own.is_some() {
                    engine.files().warnings().once(text.clone());
                }
                self.reason = text.into();
                way
            }
        };
        if way != Capture::Copy {
            engine.start_deferred_captures()?;
        }
        self.taken = way;
        self.bytes += memory.len;
        Ok(way)
    }
}

/// Whether a region can have the way that is wanted; otherwise the next one, and why.
fn possible(
    engine: &Engine,
    wanted: Capture,
    by_itself: bool,
    mappings: &Mappings,
    memory: &ProtectedMemory,
) -> std::result::Result<Capture, (Capture, Why)> {
    let (address, len) = (memory.address, memory.len);
    let without_protection = match wanted {
        Capture::Copy | Capture::Lent | Capture::Ordered => return Ok(wanted),
        Capture::Fork => None,
        Capture::Protect => match engine.captures().can_freeze() {
            Ok(()) if mappings.have_anonymous(address, len) => return Ok(wanted),
            // The application says that nobody else writes to it.
            Ok(()) if by_itself && !mappings.have_private(address, len) => return Ok(wanted),
            // No forked process can have it, either.
            Ok(()) => None,
            Err(error) => Some(Why::System(format!(
                "memory cannot be protected against writes, so a forked process copies it: {error}"
            ))),
        },
    };
    let copied =
        |why: &str| Err((Capture::Copy, Why::Memory(format!("is copied in the call: {why}"))));
    if !mappings.have_private(address, len) {
        return copied(
            "it is shared memory, which others may change, or /proc/self/maps cannot be read",
        );
    }
    if !mappings.have_anonymous(address, len) {
        return copied(
                "it is memory of a file, or static: pages that were not written show the file, which may change",
            );
    }
    if !memory.children_get(mappings, engine.captures().failed_carriers()) {
        return copied("forked processes do not get it (MADV_DONTFORK or MADV_WIPEONFORK)");
    }
    match without_protection {
        None => Ok(Capture::Fork),
        Some(why) => Err((Capture::Fork, why)),
    }
}

/// Why a region does not go the way that was asked for.
enum Why {
    /// Nothing can, on this system.
    System(String),
    /// It is not of that kind.
    Memory(String),
}
