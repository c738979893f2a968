//! Managed memory: who copies which of its pieces, by where its pages are ([`policy::managed`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::device_side::DeviceSide;
use super::place::Place;
use super::shared::Capturing;
use catalog::{Level, Part};
use device::{ManagedRange, Pointer};
use errors::Result;
use os::residency::PageTable;
use policy::managed::{self as policy_of, PIECE};
use trace::metrics::Cause;

/// The pieces of a region, in order. Only managed memory has more than one.
pub(super) type Pieces<'a> = Cow<'a, [Place]>;

/// The regions of a capture, each with the part that it goes to.
pub(super) struct Settled<'a> {
    /// As the application has them, but for the part of managed memory.
    pub places: Cow<'a, [Place]>,
    /// Where the pages of the managed regions are, by id.
    managed: BTreeMap<i32, ManagedRange>,
}

impl Settled<'_> {
    /// The pieces of a region that is captured to this level.
    pub(super) fn pieces<'p>(&self, place: &'p Place, level: Level) -> Pieces<'p> {
        match self.managed.get(&place.id) {
            Some(managed) if level == Level::HOST => cut(place, managed, false),
            _ => whole(place),
        }
    }
}

impl Capturing<'_> {
    /// Decides the parts that managed regions go to, after the work that the application has queued: it moves pages.
    pub(super) fn settle<'a>(&self, places: &'a [Place]) -> Result<Settled<'a>> {
        let mut settled = Settled { places: Cow::Borrowed(places), managed: BTreeMap::new() };
        // Without a host buffer all parts go the same way.
        if self.shared.host_side.buffer.is_none() || !places.iter().any(is_managed) {
            return Ok(settled);
        }
        let waiting = self.shared.telemetry.metrics.wait(Cause::Order);
        drop(self.shared.device_side.await_application()?);
        drop(waiting);
        let mut table = None;
        for place in settled.places.to_mut().iter_mut().filter(|place| is_managed(place)) {
            let Some(managed) = self.shared.device_side.ask(&mut table, place) else { continue };
            let on_host = managed.on_host(&range(place));
            place.part = match policy_of::capture(place.len, on_host, managed.advice.read_mostly) {
                policy_of::Side::Device => Part::Device,
                policy_of::Side::Host => Part::Host,
            };
            settled.managed.insert(place.id, managed);
        }
        Ok(settled)
    }
}

impl DeviceSide {
    /// The pieces of a region that is copied elsewhere than to a level of memory. The application's queued work has
    /// been waited for.
    pub(super) fn pieces<'p>(&self, place: &'p Place) -> Pieces<'p> {
        self.managed(place).map_or(whole(place), |managed| cut(place, &managed, false))
    }

    /// The pieces of a region that is restored. `fresh`: its pages may be nowhere yet.
    pub(super) fn pieces_to_restore<'p>(
        &self,
        place: &'p Place,
        fresh: bool,
    ) -> Result<Pieces<'p>> {
        let Some(managed) = self.managed(place) else { return Ok(whole(place)) };
        let absent = place.len - managed.on_host(&range(place));
        let free = self.attached()?.device.free_memory()?;
        let stays = policy_of::stays_on_host(absent, fresh, managed.advice.prefers_host, free);
        Ok(cut(place, &managed, stays))
    }

    /// Where the pages of a managed region are. `None`: it is not managed, or nobody tells.
    fn managed(&self, place: &Place) -> Option<ManagedRange> {
        if !is_managed(place) {
            return None;
        }
        self.ask(&mut None, place)
    }

    /// Asks where the pages are. If nobody tells, the device copies all of it; that is said once.
    fn ask(&self, table: &mut Option<PageTable>, place: &Place) -> Option<ManagedRange> {
        let asked = || -> Result<Option<ManagedRange>> {
            let table = match table {
                Some(table) => table,
                none => none.insert(PageTable::open()?),
            };
            ManagedRange::at(&self.attached()?.device, table, &range(place))
        };
        asked().unwrap_or_else(|error| {
            let text = format!(
                "the driver does not tell where managed memory is, so the device copies it: {error}"
            );
            self.telemetry.degrade("managed", text);
            None
        })
    }
}

fn is_managed(place: &Place) -> bool {
    matches!(place.kind, Pointer::Device { managed: true, .. })
}

fn range(place: &Place) -> Range<u64> {
    place.address..place.address + place.len
}

fn whole(place: &Place) -> Pieces<'_> {
    Cow::Borrowed(std::slice::from_ref(place))
}

/// Cuts a managed region into what the processor copies and what the device does, or, with `all`, leaves all of it
/// to the processor.
fn cut<'p>(place: &'p Place, managed: &ManagedRange, all: bool) -> Pieces<'p> {
    let mut pieces: Vec<Place> = Vec::new();
    let Range { mut start, end } = range(place);
    while start < end {
        let piece = start..(start / PIECE * PIECE).saturating_add(PIECE).min(end);
        let of_host =
            all || policy_of::is_of_host(piece.end - piece.start, managed.on_host(&piece));
        let kind = match of_host {
            // After the device's queued work, like registered memory.
            true => Pointer::Host { pinned: true },
            false => place.kind,
        };
        match pieces.last_mut() {
            Some(last) if last.kind == kind => last.len += piece.end - piece.start,
            _ => pieces.push(Place {
                address: piece.start,
                len: piece.end - piece.start,
                kind,
                ..*place
            }),
        }
        start = piece.end;
    }
    match pieces.len() {
        0 => whole(place),
        _ => Cow::Owned(pieces),
    }
}
