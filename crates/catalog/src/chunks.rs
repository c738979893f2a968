//! The *chunks* of the host buffer, the steps of registration: where they lie, and which the driver has pinned.
//! Plain state, like the pages.

use std::ops::Range;

use super::pages::TOUCH_UNIT;
use policy::register::{self, Pin, RegistrarStep};

/// Where the chunks lie.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    len: u64,
    size: u64,
}

impl Chunks {
    /// Chunks of `size` bytes, rounded up to whole units of touching, in `len` bytes.
    pub(crate) fn new(len: u64, size: u64) -> Chunks {
        Chunks { len, size: size.max(TOUCH_UNIT).next_multiple_of(TOUCH_UNIT) }
    }

    /// How many chunks there are.
    pub fn count(self) -> usize {
        self.len.div_ceil(self.size) as usize
    }

    /// How many lie wholly in the first `bytes`.
    pub(crate) fn within(self, bytes: u64) -> usize {
        (bytes / self.size) as usize
    }

    /// The bytes of a chunk.
    pub fn bytes(self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.size;
        start..(start + self.size).min(self.len)
    }

    /// Where the chunk of `offset` ends: no copy by the device goes beyond.
    pub fn end(self, offset: u64) -> u64 {
        ((offset / self.size + 1) * self.size).min(self.len)
    }

    fn of(self, offset: u64) -> usize {
        (offset / self.size) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegistrationProgress {
    /// Not registered yet.
    Open,
    /// Being registered.
    Registering,
    /// Registered.
    Registered,
    /// The driver has refused.
    Refused,
}

/// The registration of every chunk.
#[derive(Clone, Debug)]
pub struct ChunkStates {
    layout: Chunks,
    progress: Vec<RegistrationProgress>,
    /// For each chunk, its units that have no pages.
    untouched_units: Vec<u32>,
    registered_bytes: u64,
    /// Nothing is touched for now.
    resting: bool,
}

impl ChunkStates {
    /// Chunks of which none is registered, and none has pages.
    pub(crate) fn new(layout: Chunks) -> ChunkStates {
        let units = |bytes: Range<u64>| (bytes.end - bytes.start).div_ceil(TOUCH_UNIT) as u32;
        ChunkStates {
            layout,
            progress: vec![RegistrationProgress::Open; layout.count()],
            untouched_units: (0..layout.count()).map(|chunk| units(layout.bytes(chunk))).collect(),
            registered_bytes: 0,
            resting: false,
        }
    }

    /// Where the chunks lie.
    pub fn layout(&self) -> Chunks {
        self.layout
    }

    /// A unit has got its pages.
    pub(crate) fn unit_touched(&mut self, offset: u64) {
        self.untouched_units[self.layout.of(offset)] -= 1;
    }

    /// The pages of a unit go.
    pub(crate) fn unit_goes(&mut self, offset: u64) {
        self.untouched_units[self.layout.of(offset)] += 1;
    }

    /// Whether the driver uses the pages of the chunk of `offset`.
    pub(crate) fn is_in_use(&self, offset: u64) -> bool {
        let progress = self.progress[self.layout.of(offset)];
        matches!(progress, RegistrationProgress::Registering | RegistrationProgress::Registered)
    }

    /// No chunk from this one on is to be registered.
    pub(crate) fn refuse_from(&mut self, chunk: usize) {
        self.refuse(|nth, _| nth >= chunk);
    }

    /// Units without pages will not be touched: only the rest is to be registered.
    pub fn give_up(&mut self) {
        self.refuse(|_, untouched_units| untouched_units > 0);
    }

    fn refuse(&mut self, which: impl Fn(usize, u32) -> bool) {
        let chunks = self.progress.iter_mut().zip(&self.untouched_units).enumerate();
        for (chunk, (progress, &untouched)) in chunks {
            if *progress == RegistrationProgress::Open && which(chunk, untouched) {
                *progress = RegistrationProgress::Refused;
            }
        }
    }

    /// Whether nothing is touched for now: chunks that have their pages are then registered without
    /// waiting for the rest.
    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// What the registrar is to do next.
    pub fn next(&self, pin: Pin) -> RegistrarStep {
        let open = |chunk: usize| self.progress[chunk] == RegistrationProgress::Open;
        let touched = |chunk: usize| self.untouched_units[chunk] == 0;
        let waits = |chunk: usize| open(chunk) && !touched(chunk);
        let any_waits = (0..self.progress.len()).any(waits);
        let next = register::next(
            pin,
            self.progress.len(),
            self.resting || !any_waits,
            touched,
            |chunk| !open(chunk) || self.resting && waits(chunk),
        );
        match next {
            RegistrarStep::Done if any_waits && pin != Pin::Off => RegistrarStep::Wait,
            next => next,
        }
    }

    /// Begins to register a chunk. False if it is not to be registered after all.
    pub fn begin(&mut self, chunk: usize) -> bool {
        let is_open = self.progress[chunk] == RegistrationProgress::Open;
        if is_open {
            self.progress[chunk] = RegistrationProgress::Registering;
        }
        is_open
    }

    /// The registration of a chunk has ended: it is registered, or the driver has refused.
    pub fn ended(&mut self, chunk: usize, registered: bool) {
        if registered {
            self.progress[chunk] = RegistrationProgress::Registered;
            let bytes = self.layout.bytes(chunk);
            self.registered_bytes += bytes.end - bytes.start;
        } else {
            self.progress[chunk] = RegistrationProgress::Refused;
        }
    }

    /// Bytes that are registered.
    pub fn registered_bytes(&self) -> u64 {
        self.registered_bytes
    }

    /// Whether the chunk of `offset` is registered.
    pub fn is_registered(&self, offset: u64) -> bool {
        self.progress[self.layout.of(offset)] == RegistrationProgress::Registered
    }

    /// The chunks that are registered.
    pub fn registered(&self) -> Vec<usize> {
        let is = |&chunk: &usize| self.progress[chunk] == RegistrationProgress::Registered;
        (0..self.progress.len()).filter(is).collect()
    }
}
