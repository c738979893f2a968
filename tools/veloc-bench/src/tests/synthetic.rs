//! Made-up results for tests.

use crate::plan::{
    ApproachName, Compute, HintAmount, LevelConfiguration, PointPlan, RestoreSequence,
};
use crate::results::{
    CallKind, CauseWait, Floor, HopFigures, MeasuredDevice, MeasuredMachine, Measurement,
    MeasuringProgram, ProcessFigures, RepeatFigures, Results, SCHEMA,
};
use crate::waits::INIT;

/// Four checkpoints of 128 MiB, large-host, one process, three repeats: blocked for about `time`.
pub(crate) fn point(approach: ApproachName, interval_ms: f64, time: f64) -> Measurement {
    let plan = PointPlan {
        approach,
        configuration: LevelConfiguration::LargeHost,
        processes: 1,
        sizes: vec![vec![128 << 20; 4]],
        workload: "uniform".to_owned(),
        interval_ms,
        compute: Compute::Kernel,
        device_cache: 256 << 20,
        device_cache_most: None,
        host_cache: 1 << 30,
        order: RestoreSequence::Reverse,
        hints: HintAmount::All,
        touch: "auto".to_owned(),
        pin: "chunked".to_owned(),
        settings: Vec::new(),
        verify: true,
        seed: 1,
    };
    let runs = [0.9, 1.0, 1.2].map(|factor| run(&plan, time * factor));
    Measurement {
        plan,
        runs: runs.to_vec(),
        failures: Vec::new(),
        not_begun: None,
        notes: Vec::new(),
    }
}

fn run(plan: &PointPlan, time: f64) -> RepeatFigures {
    let count = plan.sizes[0].len();
    let each = time / count as f64;
    let hop = |name: &str, seconds| HopFigures { name: name.to_owned(), bytes: 1 << 29, seconds };
    let cause =
        |call, name: &str, seconds| CauseWait { name: name.to_owned(), call, seconds, count: 4 };
    let figures = ProcessFigures {
        init: time * 0.1,
        checkpoints: (0..count).map(|at| each * 0.9 * (0.5 + at as f64 / count as f64)).collect(),
        restores: vec![each; count],
        forward_intervals: vec![plan.interval_ms * 1.015e-3; count],
        backward_intervals: vec![plan.interval_ms * 0.997e-3; count],
        quiet_interval: plan.interval_ms * 1e-3,
        causes: vec![
            cause(CallKind::Init, INIT, time * 0.1),
            cause(CallKind::Checkpoint, "copy", time * 0.3),
            cause(CallKind::Checkpoint, "device room", time * (0.9 * 0.875 - 0.3)),
            cause(CallKind::Restore, "copy", time),
        ],
        hops: vec![hop("AtoD", 0.0004), hop("DtoH", 0.02), hop("touch", 0.1)],
        ..ProcessFigures::default()
    };
    RepeatFigures { processes: vec![figures; plan.processes as usize] }
}

/// A file with these points, and bare copies of 0.3 ms.
pub(crate) fn results(measurements: Vec<Measurement>) -> Results {
    let mut floors = Vec::new();
    for Measurement { plan, .. } in &measurements {
        let copies = |process| vec![vec![0.0003; plan.sizes_of(process).len()]];
        let copies: Vec<_> = (0..plan.processes).map(copies).collect();
        Floor::add(&mut floors, plan, &copies);
    }
    Results {
        schema: SCHEMA,
        title: "synthetic".to_owned(),
        program: MeasuringProgram { commit: "0123456".to_owned(), ..MeasuringProgram::default() },
        machine: MeasuredMachine::default(),
        device: Some(device("Synthetic", false)),
        warning: None,
        measurements,
        floors,
        left_out: Vec::new(),
        initialisation: Vec::new(),
    }
}

pub(crate) fn device(name: &str, software: bool) -> MeasuredDevice {
    MeasuredDevice { name: name.to_owned(), software, ..MeasuredDevice::default() }
}
