//! What is copied between the application's memory and a level: places on both sides.

use super::place::Place;
use catalog::space::Extent;
use catalog::Level;
use device::Pointer;
use errors::Error;
use trace::metrics::Stop;

/// The direction of a copy, seen from the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A capture.
    In,
    /// A restore.
    Out,
}

/// The bytes of one region: their place in the application and in the level.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The application's memory.
    pub place: Place,
    /// The level.
    pub level: Level,
    /// Its extents there, in order; their total is the number of bytes to copy.
    pub extents: Vec<Extent>,
}

impl Run {
    /// The number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }

    /// Whether the processor copies it; otherwise the device does.
    pub(crate) fn by_processor(&self) -> bool {
        self.level == Level::HOST && matches!(self.place.kind, Pointer::Host { .. })
    }
}

/// The name of a level in the metrics.
pub(crate) fn stop(level: Level) -> Stop {
    Stop::Memory(level.index() as u8)
}

/// Prefixes an error with the name and version of its checkpoint.
pub(crate) fn about(name: &str, version: i32) -> impl Fn(Error) -> Error + '_ {
    move |error| error.within(format!("checkpoint \"{name}\" version {version}"))
}
