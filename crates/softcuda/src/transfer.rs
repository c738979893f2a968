//! Moving bytes: the copies and fills that streams carry out, their pace, and their pause while host memory
//! is registered.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{LazyLock, Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::config::{self, Bandwidth};
use crate::memory::{Operand, RangeKind};
use crate::sync::{lock, read, write};

/// How many copies in a stream made their caller wait, as their host memory was not page-locked.
pub(crate) static STAGED: AtomicU64 = AtomicU64::new(0);

/// Locked exclusively while memory is registered, and shared by copies out of device memory.
static REGISTRATION: RwLock<()> = RwLock::new(());

/// The engine that carries out a copy; each keeps its own pace on each device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CopyEngine {
    DeviceToHost,
    HostToDevice,
    DeviceToDevice,
    Pageable,
    HostToHost,
}

impl CopyEngine {
    fn between(from: RangeKind, to: RangeKind) -> Self {
        match (from.is_on_device(), to.is_on_device()) {
            _ if from == RangeKind::Pageable || to == RangeKind::Pageable => Self::Pageable,
            (true, true) => Self::DeviceToDevice,
            (true, false) => Self::DeviceToHost,
            (false, true) => Self::HostToDevice,
            (false, false) => Self::HostToHost,
        }
    }

    fn rate(self, bandwidth: &Bandwidth) -> Option<f64> {
        match self {
            Self::DeviceToHost => bandwidth.device_to_host,
            Self::HostToDevice => bandwidth.host_to_device,
            Self::DeviceToDevice => bandwidth.device_to_device,
            Self::Pageable => bandwidth.pageable,
            Self::HostToHost => None,
        }
    }
}

/// A copy that has passed all checks.
#[derive(Debug)]
pub(crate) struct CheckedCopy {
    /// Where the bytes come from.
    pub(crate) from: Operand,
    /// Where they go.
    pub(crate) to: Operand,
    /// How many there are.
    pub(crate) bytes: usize,
    /// The device that does it.
    pub(crate) device: usize,
}

impl CheckedCopy {
    /// Whether the caller must wait for it: the driver copies by way of its
    /// own buffers where host memory is not page-locked.
    pub(crate) fn blocks_the_caller(&self) -> bool {
        self.from.place == RangeKind::Pageable || self.to.place == RangeKind::Pageable
    }

    /// Whether any host memory takes part.
    pub(crate) fn involves_the_host(&self) -> bool {
        !(self.from.place.is_on_device() && self.to.place.is_on_device())
    }

    /// Carries it out.
    pub(crate) fn run(self) {
        if !config::copies_move_data() {
            return;
        }
        let _shared = self.from.place.is_on_device().then(|| read(&REGISTRATION));
        let engine = CopyEngine::between(self.from.place, self.to.place);
        let rate = engine.rate(&config::bandwidth());
        let due = rate.map(|rate| book(self.device, engine, self.bytes, rate));
        // SAFETY: both operands were found accessible for this many bytes and
        // nobody takes them away while they are held; the caller keeps pageable
        // memory, and waits for this copy. The ranges may overlap.
        unsafe { std::ptr::copy(self.from.pointer(), self.to.pointer(), self.bytes) };
        if let Some(due) = due {
            sleep_until(due);
        }
    }
}

/// Fills `count` items of `operand` with `value`.
pub(crate) fn fill<T: std::marker::Copy>(operand: Operand, value: T, count: usize) {
    let start = operand.pointer().cast::<T>();
    for index in 0..count {
        // SAFETY: the operand was found accessible for `count` items, is
        // aligned for them and is held until this returns.
        unsafe { start.add(index).write(value) };
    }
}

/// Does `work` while no copy out of device memory goes on.
pub(crate) fn while_copies_wait(work: impl FnOnce()) {
    let _alone = write(&REGISTRATION);
    work();
}

/// Waits as long as registering this many bytes is set to take.
pub(crate) fn pace_registration(bytes: u64) {
    if let Some(rate) = config::bandwidth().register {
        std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate));
    }
}

/// Reserves the next free time of an engine, and returns when that ends.
fn book(device: usize, engine: CopyEngine, bytes: usize, rate: f64) -> Instant {
    static BUSY_UNTIL: LazyLock<Mutex<HashMap<(usize, CopyEngine), Instant>>> =
        LazyLock::new(Mutex::default);
    let now = Instant::now();
    let mut busy_until = lock(&BUSY_UNTIL);
    let until = busy_until.entry((device, engine)).or_insert(now);
    *until = now.max(*until) + Duration::from_secs_f64(bytes as f64 / rate);
    *until
}

fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}
