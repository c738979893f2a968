//! The places where the program calls flush, drain and mark: counted, left out, and when.

use std::ffi::{c_char, CStr};

use crate::image::mixed;
use crate::state::SimulationState;

/// A place where the program calls the library.
pub(crate) struct Site {
    address: usize,
    pub(crate) kind: &'static str,
    pub(crate) object: *const c_char,
    pub(crate) offset: usize,
    pub(crate) count: u64,
    /// Accesses before which a call of this place begins or has just ended: so many of them, at random.
    pub(crate) moments: Vec<u64>,
    seen: u64,
    left_out: bool,
}

/// Of the moments around the calls of a place, so many are kept.
const MOMENTS: usize = 512;

impl SimulationState {
    /// Counts a call, and says whether it is left out.
    pub(crate) fn call(&mut self, kind: &'static str, address: usize) -> bool {
        let site = self.site(kind, address);
        self.sites[site].count += 1;
        self.note(site);
        if self.sites[site].left_out {
            // What comes later keeps its number.
            self.own_step();
        }
        self.sites[site].left_out
    }

    /// A call has ended.
    pub(crate) fn called(&mut self, kind: &'static str, address: usize) {
        let site = self.site(kind, address);
        self.note(site);
    }

    /// Keeps the present moment, or not: each of the place's has the same chance.
    fn note(&mut self, site: usize) {
        let moment = self.now + 1;
        let Site { moments, seen, .. } = &mut self.sites[site];
        if moments.len() < MOMENTS {
            moments.push(moment);
        } else if let Some(other) =
            moments.get_mut((mixed(&[site as u64, *seen]) % (*seen + 1)) as usize)
        {
            *other = moment;
        }
        *seen += 1;
    }

    /// The place of a call.
    fn site(&mut self, kind: &'static str, address: usize) -> usize {
        if let Some(known) = self.sites.iter().position(|site| site.address == address) {
            return known;
        }
        // SAFETY: only numbers and pointers, of which none is a valid value.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: any address may be asked for.
        unsafe { libc::dladdr(address as *const _, &mut found) };
        let offset = address - found.dli_fbase as usize;
        let object = found.dli_fname;
        let left_out = self.plan.as_ref().and_then(|plan| plan.left_out.as_ref());
        let left_out = left_out.is_some_and(|place| {
            let here = if object.is_null() {
                c""
            } else {
                // SAFETY: the name of a loaded object.
                unsafe { CStr::from_ptr(object) }
            };
            place.kind == kind
                && place.offset == offset as u64
                && place.object.as_bytes() == here.to_bytes()
        });
        let moments = Vec::new();
        self.sites.push(Site {
            address,
            kind,
            object,
            offset,
            count: 0,
            moments,
            seen: 0,
            left_out,
        });
        self.sites.len() - 1
    }
}
