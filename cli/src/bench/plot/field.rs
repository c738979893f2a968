//! What a plan says, as keys, as facts of a heading, and as parts of file names.

use crate::bench::plan::{ApproachName, Compute, Configuration, Hints, Order, Plan};

use super::scale::bytes;

/// What a plan says that a picture has to hold fixed, or that it shows along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Which tier has room for all.
    Configuration,
    /// How many processes.
    Processes,
    /// All sizes of all processes.
    Sizes,
    /// The sizes of the first process: what stays the same while processes are added.
    FirstSizes,
    /// The size of uniform checkpoints, whatever their number, which may follow the host buffer's.
    CheckpointSize,
    /// Time between checkpoints.
    Interval,
    /// What the device does meanwhile.
    Compute,
    /// The device cache.
    DeviceCache,
    /// The host buffer.
    HostCache,
    /// The order of restores and what is said of it.
    Order,
    /// Whether bytes are compared.
    Verify,
    /// Touching and registration of `ours`.
    Variant,
    /// Further settings of `ours`.
    Settings,
}

use Field as F;

impl Field {
    /// The value as text that is equal for equal values alone.
    pub fn key(self, plan: &Plan) -> String {
        let ours = plan.approach == ApproachName::Ours;
        match self {
            F::Configuration => format!("{:?}", plan.configuration),
            F::Processes => plan.processes.to_string(),
            F::Sizes => format!("{} {:?}", plan.workload, plan.sizes),
            F::FirstSizes => format!("{} {:?}", plan.workload, plan.sizes_of(0)),
            F::CheckpointSize if uniform(plan) => plan.sizes_of(0)[0].to_string(),
            F::CheckpointSize => F::Sizes.key(plan),
            F::Interval => plan.interval_ms.to_string(),
            F::Compute => format!("{:?}", plan.compute),
            F::DeviceCache => plan.device_cache.to_string(),
            F::HostCache => plan.host_cache.to_string(),
            F::Order if plan.order == Order::Random => {
                format!("Random {:?} {}", plan.hints, plan.seed)
            }
            F::Order => format!("{:?} {:?}", plan.order, plan.hints),
            F::Verify => plan.verify.to_string(),
            F::Variant if ours => format!("{} {}", plan.touch, plan.pin),
            F::Settings if ours => plan.settings.join(" "),
            F::Variant | F::Settings => String::new(),
        }
    }

    /// The value as a reader likes it; empty where there is nothing to say.
    pub fn text(self, plan: &Plan) -> String {
        match self {
            F::Configuration => match plan.configuration {
                Configuration::LargeDevice => "large-device".to_owned(),
                Configuration::LargeHost => "large-host".to_owned(),
            },
            F::Processes if plan.processes == 1 => "1 process".to_owned(),
            F::Processes => format!("{} processes", plan.processes),
            F::Sizes | F::FirstSizes => {
                let sizes = plan.sizes_of(0);
                if uniform(plan) {
                    format!("{} checkpoints of {}", sizes.len(), bytes(sizes[0]))
                } else {
                    format!("{} checkpoints, sizes: {}", sizes.len(), plan.workload)
                }
            }
            F::CheckpointSize if uniform(plan) => {
                format!("checkpoints of {}", bytes(plan.sizes_of(0)[0]))
            }
            F::CheckpointSize => F::Sizes.text(plan),
            F::Interval => format!("{} ms between checkpoints", plan.interval_ms),
            F::Compute => match plan.compute {
                Compute::Sleep => "device idle between".to_owned(),
                Compute::Kernel => "device busy between".to_owned(),
            },
            F::DeviceCache => format!("device cache {}", bytes(plan.device_cache)),
            F::HostCache if plan.host_cache == 0 => "no host buffer".to_owned(),
            F::HostCache => format!("host buffer {}", bytes(plan.host_cache)),
            F::Order => {
                let order = match plan.order {
                    Order::Reverse => "restored in reverse".to_owned(),
                    Order::Same => "restored in the same order".to_owned(),
                    Order::Random => format!("restored in random order (seed {})", plan.seed),
                };
                let hints = match plan.hints {
                    Hints::None => "no hints",
                    Hints::One => "one hint ahead",
                    Hints::All => "all hints ahead",
                };
                format!("{order}, {hints}")
            }
            F::Verify if plan.verify => "bytes compared".to_owned(),
            F::Verify => "bytes not compared".to_owned(),
            F::Variant => format!("touch {}, pin {}", plan.touch, plan.pin),
            F::Settings => plan.settings.join(", "),
        }
    }

    /// The value in a few letters, for the name of a file.
    pub fn short(self, plan: &Plan) -> String {
        /// The most letters of a trace's name.
        const TRACE: usize = 24;
        match self {
            F::Sizes | F::FirstSizes if uniform(plan) => {
                format!("{}x{}", plan.sizes_of(0).len(), bytes(plan.sizes_of(0)[0]))
            }
            F::CheckpointSize if uniform(plan) => bytes(plan.sizes_of(0)[0]),
            F::Sizes | F::FirstSizes | F::CheckpointSize => {
                format!("{}x{}", plan.sizes_of(0).len(), cut(&plan.workload, TRACE))
            }
            F::Interval => format!("{} ms", plan.interval_ms),
            F::Compute => match plan.compute {
                Compute::Sleep => "idle".to_owned(),
                Compute::Kernel => "busy".to_owned(),
            },
            F::DeviceCache => format!("device {}", bytes(plan.device_cache)),
            F::HostCache => format!("host {}", bytes(plan.host_cache)),
            F::Order => {
                let order = match plan.order {
                    Order::Reverse => "reverse".to_owned(),
                    Order::Same => "same".to_owned(),
                    Order::Random => format!("random {}", plan.seed),
                };
                let hints = match plan.hints {
                    Hints::None => "no",
                    Hints::One => "one",
                    Hints::All => "all",
                };
                format!("{order} {hints} hints")
            }
            F::Verify if plan.verify => "compared".to_owned(),
            F::Verify => "not compared".to_owned(),
            F::Configuration | F::Processes | F::Variant | F::Settings => self.text(plan),
        }
    }
}

/// Whether all checkpoints have the same size.
pub fn uniform(plan: &Plan) -> bool {
    let mut sizes = plan.sizes.iter().flatten();
    let first = sizes.next();
    sizes.all(|size| Some(size) == first)
}

/// Text that is no longer than so many bytes.
pub fn cut(text: &str, longest: usize) -> String {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end_matches(['-', '.']).to_owned()
}
