//! The terms on which memory is protected: how it is captured, and how it is encoded.

use std::sync::Arc;

use compression::{Bits, Bound, Element};
use engine::deferred::Release;
use engine::device_compression::Way;
use format::subarray::Subarray;
use policy::capture::Capture;

/// The terms on which a range of memory is protected.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The application leaves the memory as it is until it is released.
    pub read_only: bool,
    /// How it is captured, in place of the key `host_capture`.
    pub capture: Option<Capture>,
    /// Called once for each checkpoint that the memory is captured into.
    pub release: Option<Arc<dyn Release>>,
    /// It is encoded, where its elements are floats.
    pub encoding: Option<Encoding>,
    /// It may be encoded without loss, where nothing speaks against it.
    pub may_compress: bool,
    /// It is a part of an array that the processes of the job share.
    pub subarray: Option<Subarray>,
}

/// How an array is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    /// Its elements.
    pub element: Element,
    /// What becomes of them.
    pub way: Encoding,
}

/// What becomes of the values of an array that is encoded.
#[derive(Clone, Copy, Debug)]
pub enum Encoding {
    /// They have so many bits each.
    Bounded {
        /// Bits of a value.
        bits: Bits,
        /// The most by which a value may change.
        bound: Bound,
    },
    /// They stay as they are, bit by bit.
    Lossless,
}

impl Encoding {
    /// The same for the device.
    pub(crate) fn on_device(&self) -> Way<'_> {
        match self {
            Encoding::Bounded { bits, bound } => Way::Bounded(*bits, bound),
            Encoding::Lossless => Way::Lossless,
        }
    }

    /// The bits of a value; 0 of what has no certain number.
    pub fn bits(&self) -> u32 {
        match self {
            Encoding::Bounded { bits, .. } => bits.number(),
            Encoding::Lossless => 0,
        }
    }
}

/// The floats that elements of so many bytes are.
pub(crate) fn float_of(bytes: usize) -> Option<Element> {
    match bytes {
        4 => Some(Element::F32),
        8 => Some(Element::F64),
        _ => None,
    }
}
