//! The kinds of flows, and how fast each is by itself.

use super::node::NodeFigures;

/// The kind of a flow, which decides its rate and its demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// A copy within the device.
    OnDevice,
    /// A copy from the device to the host.
    Down {
        /// Whether it goes to registered memory.
        registered: bool,
        /// Whether it goes to pages that exist.
        touched: bool,
    },
    /// A copy from the host to the device.
    Up {
        /// Whether it comes from registered memory.
        registered: bool,
    },
    /// Pages are made.
    Touch,
    /// Pages that exist are registered.
    Register,
    /// Host memory is allocated and registered in one call.
    AllocateHost,
    /// Device memory is allocated by `cuMemAlloc`.
    AllocateDevice,
}

impl Motion {
    /// Whether a registration of the same process stops this motion (HiPC'22, IV-A).
    pub(super) fn is_copy(self) -> bool {
        !matches!(self, Motion::Touch | Motion::Register | Motion::AllocateHost)
    }

    /// Whether this motion holds the driver's lock for registrations.
    pub(super) fn is_pinning(self) -> bool {
        matches!(self, Motion::Register | Motion::AllocateHost)
    }

    /// Bytes per second that a motion reaches when it has the node to itself.
    pub(super) fn limit(self, node: &NodeFigures) -> f64 {
        let figure = match self {
            Motion::OnDevice => &node.device_copy,
            Motion::Down { registered: true, .. } | Motion::Up { registered: true } => &node.link,
            Motion::Down { registered: false, touched: true } => &node.down_touched,
            Motion::Down { registered: false, touched: false } => &node.down_untouched,
            Motion::Up { registered: false } => &node.up_unregistered,
            Motion::Touch => &node.touch,
            Motion::Register => &node.register,
            Motion::AllocateHost => &node.allocate_host,
            Motion::AllocateDevice => &node.allocate_device,
        };
        figure.value
    }
}
