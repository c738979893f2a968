//! Every approach keeps and brings back versions of many sizes, on the software device, with levels
//! that are no larger than they have to be.

use anyhow::anyhow;

use super::store::host_bytes;
use super::*;
use crate::content::ContentCheck;
use crate::plan::{Compute, HintAmount, LevelConfiguration, RestoreSequence};
use xtask::on_device;

const ALL: [ApproachName; 6] = [
    ApproachName::Ours,
    ApproachName::DirectPin,
    ApproachName::Uvm,
    ApproachName::UvmBudget,
    ApproachName::IncrementalMemset,
    ApproachName::Ring,
];

/// Sizes from 4 bytes to more than half of the device cache, none a multiple of an alignment.
fn sizes() -> Vec<u64> {
    (0..20).map(|n: u64| 4 + (n * 7919 * 4) % 150_000).chain([4, 180_000, 12]).collect()
}

pub(super) fn plan(approach: ApproachName, order: RestoreSequence, hints: HintAmount) -> PointPlan {
    let sizes = sizes();
    // This library rounds up to more than the others do.
    let host = match approach {
        ApproachName::Ours => sizes.iter().map(|size| size.next_multiple_of(512)).sum(),
        _ => host_bytes(&sizes),
    };
    PointPlan {
        approach,
        configuration: LevelConfiguration::LargeHost,
        processes: 1,
        sizes: vec![sizes],
        workload: "uniform".into(),
        interval_ms: 0.0,
        compute: Compute::Sleep,
        device_cache: 256 << 10,
        device_cache_most: None,
        host_cache: host,
        order,
        hints,
        touch: "auto".into(),
        pin: "serial".into(),
        settings: Vec::new(),
        verify: true,
        seed: 7,
    }
}

/// The application's side.
pub(super) struct Application {
    pub device: BenchDevice,
    pub stream: Stream,
    pub buffer: CudaBuffer,
    pub content: ContentCheck,
}

impl Application {
    pub(super) fn new() -> Application {
        let device = BenchDevice::open(0).unwrap();
        let stream = Stream::new(&device).unwrap();
        let buffer = CudaBuffer::new(&device, sizes().into_iter().max().unwrap()).unwrap();
        let content = ContentCheck::new(&device, &stream, sizes().len() as u64).unwrap();
        Application { device, stream, buffer, content }
    }

    pub(super) fn start(&self, plan: &PointPlan) -> Result<Box<dyn Approach + '_>> {
        super::start(plan, 0, &self.device, &self.stream, &self.buffer)
    }

    /// Takes all checkpoints and restores them all; the buffer changes as soon as a call returns.
    pub(super) fn pass(&self, plan: &PointPlan) -> Result<Insight> {
        let (stream, buffer, content) = (&self.stream, &self.buffer, &self.content);
        let sizes = plan.sizes_of(0);
        let mut approach = self.start(plan)?;
        for (version, &bytes) in (0..).zip(sizes) {
            content.kernels.fill(stream, buffer, bytes, version)?;
            approach.checkpoint(version, bytes)?;
        }
        content.kernels.fill(stream, buffer, buffer.bytes(), u32::MAX)?;
        let order = plan.restores(0);
        for (position, &version) in order.iter().enumerate() {
            let bytes = sizes[version as usize];
            match (plan.hints, position) {
                (HintAmount::All, 0) => approach.expect(&order)?,
                (HintAmount::One, _) => {
                    approach.expect(order.get(position + 1..position + 2).unwrap_or_default())?;
                }
                _ => {}
            }
            approach.restore(version, bytes)?;
            content.compare(stream, buffer, bytes, version)?;
        }
        let insight = approach.insight()?;
        approach.finish()?;
        Ok(insight)
    }
}

#[test]
fn all_versions_come_back_in_every_order_with_every_hint() {
    on_device::run(|| {
        let application = Application::new();
        for approach in ALL {
            for order in [RestoreSequence::Reverse, RestoreSequence::Same, RestoreSequence::Random]
            {
                for hints in [HintAmount::None, HintAmount::One, HintAmount::All] {
                    let plan = plan(approach, order, hints);
                    let what = format!("{} {order:?} {hints:?}", approach.text());
                    let done = application.pass(&plan);
                    assert!(done.is_ok(), "{what}: {:#}", done.unwrap_err());
                    let wrong = application.content.wrong_versions(&application.stream).unwrap();
                    assert_eq!(wrong, 0, "{what}");
                }
            }
        }
    });
}

#[test]
fn a_store_moves_every_byte_down_once_and_those_that_left_up_once() {
    on_device::run(|| {
        let application = Application::new();
        let all: u64 = sizes().iter().sum();
        for approach in [ApproachName::DirectPin, ApproachName::IncrementalMemset] {
            let insight = application
                .pass(&plan(approach, RestoreSequence::Reverse, HintAmount::All))
                .unwrap();
            let bytes = |name: &str| {
                insight.hops.iter().find(|hop| hop.name == name).map_or(0, |hop| hop.bytes)
            };
            assert_eq!(bytes("AtoD"), all);
            assert_eq!(bytes("DtoA") + bytes("HtoA"), all);
            assert!(bytes("DtoH") <= all);
            assert!(
                bytes("DtoH") >= all - (256 << 10),
                "what left the cache was flushed: {insight:?} of {all}"
            );
            assert!(bytes("HtoD") + bytes("HtoA") <= all, "nothing comes up twice");
        }
    });
}

#[test]
fn memory_that_is_not_there_is_refused_with_its_size() {
    on_device::run(|| {
        let application = Application::new();
        for (approach, device_cache, said) in [
            (ApproachName::Ours, 5 << 30, "5 GiB"),
            (ApproachName::DirectPin, 5 << 30, "5 GiB"),
            (ApproachName::IncrementalMemset, 5 << 30, "GiB"),
            (ApproachName::IncrementalMemset, 64 << 10, "no room for"),
            (ApproachName::DirectPin, 64 << 10, "no room for"),
        ] {
            let mut plan = plan(approach, RestoreSequence::Reverse, HintAmount::None);
            plan.device_cache = device_cache;
            if device_cache > 4 << 30 {
                // A plan for more than the device has fails only when the memory is needed.
                plan.sizes = vec![vec![180_000; 26_000]];
                plan.configuration = LevelConfiguration::LargeDevice;
                plan.host_cache = 0;
            }
            let ended = application.pass(&plan).map(|_| ());
            let error = format!("{:#}", ended.err().unwrap_or_else(|| anyhow!("it worked")));
            assert!(error.contains(said), "{} {device_cache}: {error}", approach.text());
        }
    });
}

#[test]
fn the_ring_needs_a_host_buffer() {
    on_device::run(|| {
        let mut plan = plan(ApproachName::Ring, RestoreSequence::Reverse, HintAmount::None);
        (plan.configuration, plan.host_cache) = (LevelConfiguration::LargeDevice, 0);
        let application = Application::new();
        let error = application.start(&plan).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ring") && error.contains("no host buffer"), "{error}");
    });
}
