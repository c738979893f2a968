//! One shot: modelling its data, and migrating the data.

use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;

use crate::store::Store;
use crate::wave::{Medium, Propagator};

/// The times of a shot, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Steps of a pass.
    pub steps: usize,
    /// Steps from one checkpoint to the next.
    pub interval: usize,
}

impl Schedule {
    /// Checkpoints of a pass.
    pub(crate) fn checkpoints(self) -> usize {
        self.steps / self.interval
    }

    /// The version to checkpoint after step `row`, if one is due.
    fn version(self, row: usize) -> Option<i32> {
        let done = row + 1;
        done.is_multiple_of(self.interval).then(|| (done / self.interval - 1) as i32)
    }
}

/// A wavefield to show, and when it was taken.
pub(crate) struct Frame {
    /// The checkpoint to keep.
    pub version: i32,
    /// The wavefield inside the model, once it was kept.
    pub values: Vec<f32>,
}

/// How long a pass took, and how much of that was spent in the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// From the first step to the end of the last.
    pub wall: Duration,
    /// Inside the store, from call to return.
    pub stored: Duration,
}

/// Steps that are queued before the program waits for them, so that a bar shows finished steps: a
/// device accepts a step long before it has computed it.
const AT_A_TIME: usize = 64;

impl Times {
    /// The time of the pass with a store that takes no time.
    pub(crate) fn compute(self) -> Duration {
        self.wall.saturating_sub(self.stored)
    }
}

/// Models the data of the shot in `medium`: one row of all receivers per step.
pub(crate) fn model_data(
    device: &mut dyn Propagator,
    medium: &Medium,
    traces: &mut [f32],
    steps: usize,
    bar: &ProgressBar,
) -> Result<Duration> {
    let start = Instant::now();
    device.load(medium)?;
    for row in 0..steps {
        device.step()?;
        device.fire(row)?;
        device.record(row)?;
        if (row + 1).is_multiple_of(AT_A_TIME) {
            device.wait()?;
            bar.set_position(row as u64 + 1);
        }
    }
    device.read_traces(traces)?;
    Ok(start.elapsed())
}

/// Takes waves that never met a reflector out of `observed`: those that the smooth model yields as
/// well. Also fades out the ends of the spread and of the record, where it breaks off.
pub(crate) fn keep_reflections(observed: &mut [f32], smooth: &[f32], receivers: usize) {
    let steps = observed.len() / receivers;
    let fade = |at: usize, points: usize, share: f32| {
        let from_end = at.min(points - 1 - at) as f32 + 0.5;
        raised(from_end / (share * points as f32))
    };
    for (row, (observed, smooth)) in
        observed.chunks_mut(receivers).zip(smooth.chunks(receivers)).enumerate()
    {
        let late = if row > steps / 2 { fade(row, steps, 0.05) } else { 1.0 };
        for (receiver, (value, smooth)) in observed.iter_mut().zip(smooth).enumerate() {
            *value = (*value - smooth) * late * fade(receiver, receivers, 0.1);
        }
    }
}

/// A rise from 0 at zero to 1 at one, along half a cosine.
fn raised(x: f32) -> f32 {
    0.5 - 0.5 * (std::f32::consts::PI * x.clamp(0.0, 1.0)).cos()
}

/// Mutes the waves of flat reflectors at more than [`WIDEST`] from the vertical: there waves are
/// refracted and turned rather than reflected. `offsets` are the receivers' distances from the
/// source in metres, `speeds` the velocities below the source every `dx` metres, `delay` and `fade`
/// are the wavelet's delay and how long the mute takes to end, in seconds.
pub(crate) fn mute_wide_angles(
    traces: &mut [f32],
    offsets: &[f32],
    (speeds, dx): (&[f32], f32),
    (dt, delay, fade): (f32, f32, f32),
) {
    let (sine, cosine) = WIDEST.to_radians().sin_cos();
    let ends: Vec<f32> = offsets
        .iter()
        .map(|offset| {
            // The reflector that sends this angle to this offset, and the time to it and back.
            let depth = offset * cosine / (2.0 * sine);
            let cells = depth / dx;
            let deepest = speeds.last().copied().unwrap_or(f32::INFINITY);
            let vertical: f32 = (0..cells.ceil() as usize)
                .map(|iz| {
                    let speed = speeds.get(iz).copied().unwrap_or(deepest);
                    2.0 * dx * (cells - iz as f32).min(1.0) / speed
                })
                .sum();
            delay + vertical / cosine
        })
        .collect();
    for (row, values) in traces.chunks_mut(offsets.len()).enumerate() {
        let time = (row + 1) as f32 * dt;
        for (value, end) in values.iter_mut().zip(&ends) {
            *value *= raised((time - end) / fade + 0.5);
        }
    }
}

/// The widest angle from the vertical, in degrees, that is migrated.
pub(crate) const WIDEST: f32 = 58.0;

/// The forward pass: propagates the source's wavefield and stores it every few steps.
pub(crate) fn forward(
    device: &mut dyn Propagator,
    medium: &Medium,
    schedule: Schedule,
    store: &mut dyn Store,
    frame: Option<&mut Frame>,
    bar: &ProgressBar,
) -> Result<Times> {
    let start = Instant::now();
    let mut stored = Duration::ZERO;
    let mut frame = frame;
    let before = bar.position();
    device.load(medium)?;
    for row in 0..schedule.steps {
        device.step()?;
        device.fire(row)?;
        let Some(version) = schedule.version(row) else {
            continue;
        };
        device.snapshot()?;
        // Waits for computing first, so that the time in the store is the store's own.
        device.wait()?;
        let call = Instant::now();
        store.save(device, version)?;
        stored += call.elapsed();
        bar.set_position(before + row as u64 + 1);
        if let Some(frame) = frame.as_deref_mut().filter(|frame| frame.version == version) {
            device.read_state(&mut frame.values)?;
        }
    }
    device.wait()?;
    bar.set_position(before + schedule.steps as u64);
    Ok(Times { wall: start.elapsed(), stored })
}

/// The backward pass: propagates the data back from the receivers and correlates them with the
/// stored wavefields, which it asks for in reverse.
pub(crate) fn backward(
    device: &mut dyn Propagator,
    schedule: Schedule,
    traces: &[f32],
    store: &mut dyn Store,
    bar: &ProgressBar,
) -> Result<Times> {
    let start = Instant::now();
    device.rest()?;
    device.clear_image()?;
    device.write_traces(traces)?;
    let call = Instant::now();
    store.announce_reverse(0..schedule.checkpoints() as i32)?;
    let mut stored = call.elapsed();
    let before = bar.position();
    for row in (0..schedule.steps).rev() {
        // The receivers' wavefield now stands at the time that step `row` of the forward pass
        // led to, and so does the state stored after it.
        if let Some(version) = schedule.version(row) {
            device.wait()?;
            // All steps down to this one have been computed.
            bar.set_position(before + (schedule.steps - 1 - row) as u64);
            let call = Instant::now();
            store.load(device, version)?;
            stored += call.elapsed();
            device.correlate()?;
        }
        device.step()?;
        device.inject(row)?;
    }
    device.wait()?;
    bar.set_position(before + schedule.steps as u64);
    Ok(Times { wall: start.elapsed(), stored })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;
    use crate::model::Model;
    use crate::store::InMemory;
    use crate::wave::coefficients::{default_step, ricker};
    use crate::wave::host::Host;
    use crate::wave::Spread;

    #[test]
    fn a_schedule_stores_after_every_interval() {
        let schedule = Schedule { steps: 11, interval: 4 };
        let versions: Vec<_> = (0..11).filter_map(|row| schedule.version(row)).collect();
        assert_eq!(versions, [0, 1]);
        assert_eq!(schedule.checkpoints(), 2);
        let every = Schedule { steps: 3, interval: 1 };
        assert_eq!((0..3).filter_map(|row| every.version(row)).count(), every.checkpoints());
    }

    #[test]
    fn the_mute_follows_the_angle() {
        // Even ground: the reflection at 58 degrees from 1000 m away comes after
        // 1000 / (2000 sin 58) = 0.59 s.
        let (dt, steps) = (0.001, 1000);
        let mut traces = vec![1.0; steps * 2];
        let speeds = vec![2000.0; 10];
        mute_wide_angles(&mut traces, &[0.0, 1000.0], (&speeds, 10.0), (dt, 0.1, 0.04));
        let near: Vec<f32> = traces.iter().copied().step_by(2).collect();
        let far: Vec<f32> = traces.iter().copied().skip(1).step_by(2).collect();
        let opens = |trace: &[f32]| trace.iter().position(|v| *v > 0.5).unwrap();
        assert!(opens(&near).abs_diff(100) <= 2, "{}", opens(&near));
        assert!(opens(&far).abs_diff(690) <= 2, "{}", opens(&far));
    }

    #[test]
    fn a_point_diffractor_migrates_to_its_place() {
        let (nx, nz, dx, speed, frequency) = (121, 81, 10.0, 2000.0, 20.0);
        let (spot_x, spot_z) = (70, 45);
        let even = Model { nx, nz, dx, velocity: vec![speed; nx * nz] };
        let mut spotted = even.clone();
        spotted.velocity[spot_x * nz + spot_z] = 2600.0;
        let dt = default_step(2600.0, dx);
        let schedule = Schedule { steps: 900, interval: 4 };
        let medium = |model: &Model| Medium::new(model, dt, 2600.0, frequency);
        let grid = medium(&even).grid;
        let receivers: Vec<u32> = (0..nx).map(|ix| grid.place(ix, 1) as u32).collect();
        let count = receivers.len();
        let spread = Spread { source: grid.place(nx / 2, 1) as u32, receivers };
        let mut device = Host::new(grid, spread, ricker(frequency, dt, schedule.steps));
        let bar = ProgressBar::hidden();
        let mut traces = vec![0.0; schedule.steps * count];
        let mut direct = traces.clone();
        model_data(&mut device, &medium(&spotted), &mut traces, schedule.steps, &bar).unwrap();
        model_data(&mut device, &medium(&even), &mut direct, schedule.steps, &bar).unwrap();
        keep_reflections(&mut traces, &direct, count);
        let mut store = InMemory::new(nx * nz);
        forward(&mut device, &medium(&even), schedule, &mut store, None, &bar).unwrap();
        backward(&mut device, schedule, &traces, &mut store, &bar).unwrap();
        let (mut raw, mut light) = (vec![0.0; nx * nz], vec![0.0; nx * nz]);
        device.read_image(&mut raw, &mut light).unwrap();
        let picture = image::reflectivity(&raw, &light, &even, 2.0 * speed / frequency);
        let brightest =
            (0..nx * nz).max_by(|&a, &b| picture[a].abs().total_cmp(&picture[b].abs())).unwrap();
        let (ix, iz) = (brightest / nz, brightest % nz);
        assert!(
            ix.abs_diff(spot_x) <= 2 && iz.abs_diff(spot_z) <= 2,
            "the diffractor at {spot_x}, {spot_z} came out at {ix}, {iz}"
        );
    }

    /// A device that computes nothing until it is waited for, and then all queued steps.
    struct Queue {
        asked: u64,
        done: u64,
        bar: ProgressBar,
    }

    impl Queue {
        /// Steps that the bar shows are done, and before the next step is queued it shows most of
        /// those.
        fn judge(&self) {
            let shown = self.bar.position();
            assert!(shown <= self.done, "{shown} of {} that are done", self.done);
            assert!(self.done - shown < 10, "{shown} of {} that are done", self.done);
        }
    }

    impl Propagator for Queue {
        fn device(&self) -> &str {
            "queue"
        }
        fn stream(&self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        fn state(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        fn step(&mut self) -> Result<()> {
            self.judge();
            self.asked += 1;
            Ok(())
        }
        fn wait(&mut self) -> Result<()> {
            self.done = self.asked;
            Ok(())
        }
        fn read_traces(&mut self, _: &mut [f32]) -> Result<()> {
            self.wait()
        }
        fn read_state(&mut self, _: &mut [f32]) -> Result<()> {
            self.wait()
        }
        fn load(&mut self, _: &Medium) -> Result<()> {
            Ok(())
        }
        fn rest(&mut self) -> Result<()> {
            Ok(())
        }
        fn fire(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
        fn record(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
        fn inject(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
        fn snapshot(&mut self) -> Result<()> {
            Ok(())
        }
        fn correlate(&mut self) -> Result<()> {
            Ok(())
        }
        fn clear_image(&mut self) -> Result<()> {
            Ok(())
        }
        fn write_state(&mut self, _: &[f32]) -> Result<()> {
            Ok(())
        }
        fn write_traces(&mut self, _: &[f32]) -> Result<()> {
            Ok(())
        }
        fn read_image(&mut self, _: &mut [f32], _: &mut [f32]) -> Result<()> {
            Ok(())
        }
    }

    /// Catches a bar that counts steps which a device has accepted but not computed.
    #[test]
    fn bars_count_finished_steps() {
        let bar = ProgressBar::hidden();
        let mut queue = Queue { asked: 0, done: 0, bar: bar.clone() };
        let model = Model { nx: 8, nz: 8, dx: 10.0, velocity: vec![2000.0; 64] };
        let medium = Medium::new(&model, 0.001, 2000.0, 20.0);
        let schedule = Schedule { steps: 200, interval: 7 };
        model_data(&mut queue, &medium, &mut [], 200, &bar).unwrap();
        (queue.asked, queue.done) = (0, 0);
        bar.set_position(0);
        let mut store = InMemory::new(64);
        forward(&mut queue, &medium, schedule, &mut store, None, &bar).unwrap();
        assert_eq!(bar.position(), 200);
        backward(&mut queue, schedule, &[], &mut store, &bar).unwrap();
        assert_eq!(bar.position(), 400);
    }
}
