//! The figures of nodes, each with its source.
//!
//! Sizes are in bytes, rates in bytes per second. GB are 10^9, GiB 2^30 bytes.

use clap::ValueEnum;
use serde::Serialize;

/// How far a figure can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Trust {
    /// The paper (HiPC'22) says so.
    Paper,
    /// Chosen so that the model agrees with a figure of the paper, within bounds from elsewhere.
    Fitted,
    /// Published elsewhere; not measured here.
    Lead,
    /// An assumption without a source.
    Assumed,
}

/// A figure and its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SourcedFigure {
    pub value: f64,
    /// How far to trust the figure.
    pub trust: Trust,
    /// The source of the figure.
    pub source: &'static str,
}

const fn paper(value: f64, source: &'static str) -> SourcedFigure {
    SourcedFigure { value, trust: Trust::Paper, source }
}

const fn fitted(value: f64, source: &'static str) -> SourcedFigure {
    SourcedFigure { value, trust: Trust::Fitted, source }
}

const fn lead(value: f64, source: &'static str) -> SourcedFigure {
    SourcedFigure { value, trust: Trust::Lead, source }
}

const fn assumed(value: f64, source: &'static str) -> SourcedFigure {
    SourcedFigure { value, trust: Trust::Assumed, source }
}

const GB: f64 = 1e9;
const GIB: f64 = (1u64 << 30) as f64;

/// The nodes that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NodeName {
    /// The paper's node: 8 A100 of 40 GB.
    DgxA100,
    /// 8 H200 of 141 GB, two processors.
    H200,
    /// 4 Blackwell GPUs of 186 GB, two Grace processors.
    Gb200,
}

impl NodeName {
    /// The node of this name.
    pub(super) fn node(self) -> NodeFigures {
        match self {
            NodeName::DgxA100 => dgx_a100(),
            NodeName::H200 => h200(),
            NodeName::Gb200 => gb200(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeFigures {
    pub name: &'static str,
    pub gpus: usize,
    /// GPUs that share a link to the host.
    pub gpus_per_link: usize,
    /// GPUs whose host buffers are in the same memory domain.
    pub gpus_per_domain: usize,
    /// Processors a process may use: decides how many threads touch.
    pub processors_per_process: usize,
    /// The device reads the host's page tables: nothing needs registration.
    pub coherent: bool,
    /// Memory of a GPU, in bytes.
    pub device_memory: SourcedFigure,
    /// Copies within a GPU: bytes copied per second, all processes together.
    pub device_copy: SourcedFigure,
    /// A link, in each direction: the rate of a copy to or from registered memory.
    pub link: SourcedFigure,
    /// A copy to unregistered pages that exist.
    pub down_touched: SourcedFigure,
    /// A copy to pages that do not exist.
    pub down_untouched: SourcedFigure,
    /// A copy from unregistered pages.
    pub up_unregistered: SourcedFigure,
    /// Host memory of a domain: bytes read or written per second.
    pub memory: SourcedFigure,
    /// Bytes of host memory read or written for each byte of an unregistered copy: into the
    /// driver's staging buffer by the device, and out of it by the processor.
    pub staging: SourcedFigure,
    /// Touching pages of 2 MiB, all threads of a process together.
    pub touch: SourcedFigure,
    /// Registering pages of 2 MiB that exist, one process at a time.
    pub register: SourcedFigure,
    /// Allocating and registering in one call, one process at a time.
    pub allocate_host: SourcedFigure,
    /// `cuMemAlloc`, one process at a time.
    pub allocate_device: SourcedFigure,
    /// Mapping a chunk of device addresses: seconds for each chunk.
    pub map_call: SourcedFigure,
    /// Mapping a chunk of device addresses: bytes per second, beside the time for each chunk.
    pub map: SourcedFigure,
}

impl NodeFigures {
    /// Every figure with its name.
    pub(super) fn figures(&self) -> [(&'static str, &SourcedFigure); 14] {
        [
            ("device_memory", &self.device_memory),
            ("device_copy", &self.device_copy),
            ("link", &self.link),
            ("down_touched", &self.down_touched),
            ("down_untouched", &self.down_untouched),
            ("up_unregistered", &self.up_unregistered),
            ("memory", &self.memory),
            ("staging", &self.staging),
            ("touch", &self.touch),
            ("register", &self.register),
            ("allocate_host", &self.allocate_host),
            ("allocate_device", &self.allocate_device),
            ("map_call", &self.map_call),
            ("map", &self.map),
        ]
    }
}

/// The paper's node, with the paper's figures wherever it gives one.
pub(super) fn dgx_a100() -> NodeFigures {
    NodeFigures {
        name: "DGX A100",
        gpus: 8,
        // V-A: two GPUs share a link, so that 4 of the 8 memory domains are next to GPUs.
        gpus_per_link: 2,
        gpus_per_domain: 2,
        // V-A: 256 threads for 8 processes.
        processors_per_process: 32,
        coherent: false,
        device_memory: paper(40.0 * GIB, "V-A: 320 GB of HBM in 8 GPUs"),
        device_copy: paper(500.0 * GB, "V-A: peak device to device"),
        link: paper(25.0 * GB, "V-A: pinned, shared by two GPUs"),
        down_touched: paper(6.0 * GB, "IV-A: flush to touched pages"),
        down_untouched: paper(3.0 * GB, "IV-A: flush to untouched pages"),
        up_unregistered: paper(12.0 * GB, "V-A: peak unpinned, both directions"),
        memory: paper(20.0 * GB, "V-A: DDR4 (20 GB/s, 8 NUMA domains), read as of each domain"),
        staging: fitted(2.0, "6a, 8 processes; one write and one read of the staging buffer"),
        touch: paper(3.0 * GB, "V-E: the rate of mapping virtual to physical memory"),
        register: fitted(40.0 * GB, "6a, 6b, 1 process; leads for 2 MiB pages: 10 to 47 GB/s"),
        allocate_host: paper(3.0 * GB, "I: host memory registration"),
        allocate_device: paper(1200.0 * GB, "V-E, figure 4a: one process"),
        map_call: lead(40e-6, "lead: vAttention, a map and its access"),
        map: paper(1400.0 * GB, "IV-A: allocating and preparing in one call"),
    }
}

/// Eight H200: rates of other people's machines.
pub(super) fn h200() -> NodeFigures {
    NodeFigures {
        name: "H200",
        gpus: 8,
        gpus_per_link: 1,
        // Two sockets.
        gpus_per_domain: 4,
        // DGX H200: 112 cores.
        processors_per_process: 14,
        coherent: false,
        device_memory: lead(141.0 * GB, "NVIDIA H200 data sheet"),
        device_copy: lead(2100.0 * GB, "posted: bytes copied, H200"),
        link: lead(52.8 * GB, "posted: H100, pinned, PCIe 5.0 x16"),
        down_touched: lead(9.0 * GB, "posted: H100, pageable, warm, 9 to 12 GB/s"),
        down_untouched: lead(2.4 * GB, "posted: H100, pageable, cold"),
        up_unregistered: lead(9.0 * GB, "posted: H100, pageable, warm, 9 to 12 GB/s"),
        memory: lead(307.2 * GB, "arithmetic: 8 channels of DDR5-4800 a socket"),
        staging: assumed(2.0, "as on the A100"),
        touch: lead(
            4.0 * 6.4 * GIB,
            "posted: 6.4 GiB/s a thread on 2 MiB pages (H20 host), 4 threads",
        ),
        register: lead(44.0 * GIB, "posted: 2 MiB pages that exist (H20 host)"),
        allocate_host: lead(3.0 * GIB, "posted: 1.3 to 3 GiB/s (H100, H20); the best of them"),
        allocate_device: assumed(1200.0 * GB, "as on the A100"),
        map_call: lead(40e-6, "posted: vAttention, a map and its access"),
        map: assumed(1400.0 * GB, "as on the A100"),
    }
}

/// Four Blackwell GPUs at two Grace processors: rates of other people's machines.
pub(super) fn gb200() -> NodeFigures {
    NodeFigures {
        name: "GB200",
        gpus: 4,
        gpus_per_link: 1,
        // Each Grace has two GPUs.
        gpus_per_domain: 2,
        // 144 cores for 4 GPUs.
        processors_per_process: 36,
        coherent: true,
        device_memory: lead(186.0 * GB, "NVIDIA GB200 data sheet"),
        device_copy: assumed(3500.0 * GB, "8 TB/s of HBM (data sheet), the H200's share of it"),
        link: lead(97.0 * GIB, "posted: Grace with ATS, pinned"),
        down_touched: lead(93.0 * GIB, "posted: Grace with ATS, pageable"),
        down_untouched: assumed(6.4 * GIB, "pages made one after the other, as by one thread"),
        up_unregistered: lead(93.0 * GIB, "posted: Grace with ATS, pageable"),
        memory: lead(410.0 * GB, "NVIDIA Grace tuning guide: least STREAM triad, 120 GB"),
        staging: assumed(1.0, "no staging: the device reads and writes pageable memory"),
        ..h200()
    }
}
