//! The 2-D acoustic wave equation of constant density, and the devices that step it.
//!
//! Second order in time, eighth order in space, convolutional perfectly matched layers (CPML)
//! on all four sides, the surface included, so that no surface multiples need be modelled.

pub(crate) mod coefficients;
pub(crate) mod cuda;
pub(crate) mod host;
pub(crate) mod kernels;
mod software;

use std::ffi::c_void;

use anyhow::Result;

use crate::model::Model;
use coefficients::{Absorber, REACH};

/// Points that absorb at each side of the model.
const BORDER: usize = 32;

/// The computing grid: a model of `nx` x `nz` points with [`Grid::PAD`] more on each side. Depth
/// runs fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Columns of the model.
    pub nx: usize,
    /// Depth samples of the model.
    pub nz: usize,
}

impl Grid {
    /// Points added on each side: those that absorb, and those that differences reach into.
    pub(crate) const PAD: usize = BORDER + REACH;

    /// Columns with both borders.
    pub(crate) fn px(self) -> usize {
        self.nx + 2 * Self::PAD
    }

    /// Depth samples with both borders.
    pub(crate) fn pz(self) -> usize {
        self.nz + 2 * Self::PAD
    }

    /// Points of the model.
    pub(crate) fn points(self) -> usize {
        self.nx * self.nz
    }

    /// Points with the borders.
    pub(crate) fn padded(self) -> usize {
        self.px() * self.pz()
    }

    /// The place in a padded array of a point of the model.
    pub(crate) fn place(self, ix: usize, iz: usize) -> usize {
        (ix + Self::PAD) * self.pz() + iz + Self::PAD
    }
}

/// The medium's numbers in the scheme, as the devices take them.
pub(crate) struct Medium {
    pub grid: Grid,
    /// `(velocity * dt / dx)^2` at each padded point.
    pub courant2: Vec<f32>,
    /// The absorbing profile along x.
    pub absorb_x: Absorber,
    /// The absorbing profile along depth.
    pub absorb_z: Absorber,
}

impl Medium {
    /// The medium of `model` for a step of `dt` seconds. `fastest` (m/s) and `frequency` (Hz)
    /// shape the absorbing border.
    pub(crate) fn new(model: &Model, dt: f32, fastest: f32, frequency: f32) -> Self {
        let grid = Grid { nx: model.nx, nz: model.nz };
        let mut courant2 = Vec::with_capacity(grid.padded());
        for px in 0..grid.px() {
            let ix = px.saturating_sub(Grid::PAD).min(grid.nx - 1);
            for pz in 0..grid.pz() {
                let iz = pz.saturating_sub(Grid::PAD).min(grid.nz - 1);
                let courant = model.at(ix, iz) * dt / model.dx;
                courant2.push(courant * courant);
            }
        }
        let absorb = |points| Absorber::new(points, BORDER, fastest, model.dx, dt, frequency);
        Medium { grid, courant2, absorb_x: absorb(grid.px()), absorb_z: absorb(grid.pz()) }
    }
}

/// Where the source and the receivers stand, as places in a padded array.
pub(crate) struct Spread {
    pub source: u32,
    /// The receivers, each place once.
    pub receivers: Vec<u32>,
}

/// A device that steps one wavefield and holds what the migration needs beside it.
///
/// Calls may return before the work is done; [`Propagator::wait`] and every `read_*` wait for it.
pub(crate) trait Propagator {
    /// The name of the device, for readers.
    fn device(&self) -> &str;

    /// The device's stream for `VELOC_Set_stream`, null where there is none.
    fn stream(&self) -> *mut c_void;

    /// Takes a medium and brings the wavefield to rest.
    fn load(&mut self, medium: &Medium) -> Result<()>;

    /// Brings the wavefield to rest.
    fn rest(&mut self) -> Result<()>;

    /// Takes one step.
    fn step(&mut self) -> Result<()>;

    /// Adds sample `row` of the source's wavelet to the wavefield.
    fn fire(&mut self, row: usize) -> Result<()>;

    /// Keeps the wavefield at the receivers as sample `row` of the traces.
    fn record(&mut self, row: usize) -> Result<()>;

    /// Adds sample `row` of the traces to the wavefield at the receivers.
    fn inject(&mut self, row: usize) -> Result<()>;

    /// Copies the wavefield inside the model into the state, without the borders.
    fn snapshot(&mut self) -> Result<()>;

    /// Adds state times wavefield to the image, and the state's square to the illumination.
    fn correlate(&mut self) -> Result<()>;

    /// Sets the image and the illumination to zero.
    fn clear_image(&mut self) -> Result<()>;

    /// The state's address, which may be the device's own, for the checkpoint library. It stays
    /// the same as long as the propagator lives and holds `grid.points()` values.
    fn state(&mut self) -> *mut c_void;

    /// Waits until all queued work has been done.
    fn wait(&mut self) -> Result<()>;

    /// Reads the state.
    fn read_state(&mut self, into: &mut [f32]) -> Result<()>;

    /// Replaces the state.
    fn write_state(&mut self, from: &[f32]) -> Result<()>;

    /// Reads the traces, one row of all receivers per step.
    fn read_traces(&mut self, into: &mut [f32]) -> Result<()>;

    /// Replaces the traces.
    fn write_traces(&mut self, from: &[f32]) -> Result<()>;

    /// Reads the image and the illumination.
    fn read_image(&mut self, image: &mut [f32], illumination: &mut [f32]) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wave::coefficients::{default_step, ricker};
    use crate::wave::host::Host;

    const DX: f32 = 10.0;
    const SPEED: f32 = 2000.0;
    const FREQUENCY: f32 = 15.0;

    fn quiet_model(nx: usize, nz: usize) -> Model {
        Model { nx, nz, dx: DX, velocity: vec![SPEED; nx * nz] }
    }

    /// Fires a source in the middle of an even medium and records at one receiver.
    fn trace(nx: usize, nz: usize, offset: usize, dt: f32, steps: usize) -> Vec<f32> {
        let model = quiet_model(nx, nz);
        let medium = Medium::new(&model, dt, SPEED, FREQUENCY);
        let grid = medium.grid;
        let spread = Spread {
            source: grid.place(nx / 2, nz / 2) as u32,
            receivers: vec![grid.place(nx / 2 + offset, nz / 2) as u32],
        };
        let mut host = Host::new(grid, spread, ricker(FREQUENCY, dt, steps));
        host.load(&medium).unwrap();
        for row in 0..steps {
            host.step().unwrap();
            host.fire(row).unwrap();
            host.record(row).unwrap();
        }
        let mut traces = vec![0.0; steps];
        host.read_traces(&mut traces).unwrap();
        traces
    }

    fn largest(values: impl Iterator<Item = f32>) -> f32 {
        values.fold(0.0, |m, v| m.max(v.abs()))
    }

    #[test]
    fn the_border_returns_less_than_half_a_percent() {
        let steps = 700;
        // The large model's border is too far away for its echo to come back in time.
        let dt = default_step(SPEED, DX);
        let (small, large) = (trace(101, 101, 30, dt, steps), trace(501, 501, 30, dt, steps));
        let peak = largest(large.iter().copied());
        let echo = largest(small.iter().zip(&large).map(|(s, l)| s - l));
        assert!(peak > 0.0);
        assert!(echo < 0.005 * peak, "the border returns {} %", 100.0 * echo / peak);
    }

    /// The largest error of a recorded wave as a share of its peak.
    fn error_of_the_wave(dt: f32) -> f64 {
        const OFFSET: usize = 40;
        let steps = (0.5 / dt) as usize;
        let computed = trace(201, 201, OFFSET, dt, steps);
        let wavelet = |t: f64| {
            let phase = std::f64::consts::PI * (f64::from(FREQUENCY) * t - 1.2);
            (1.0 - 2.0 * phase * phase) * (-phase * phase).exp()
        };
        // The exact answer in 2-D is the wavelet convolved with 1 / (2 pi sqrt(t^2 - r^2/c^2)).
        // Summed over s, where t = r/c cosh(s) takes the singularity out. Sample `row` is of the
        // time after that step.
        let arrival = f64::from(OFFSET as f32 * DX / SPEED);
        let exact = |row: usize| {
            let t = f64::from((row + 1) as f32 * dt);
            let ds = 1e-3;
            let times = (0..).map(|n| arrival * ((f64::from(n) + 0.5) * ds).cosh());
            let sum: f64 = times.take_while(|s| *s < t).map(|s| wavelet(t - s) * ds).sum();
            sum / std::f64::consts::TAU
        };
        let exact: Vec<f64> = (0..steps).map(exact).collect();
        let peak = exact.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let errors = exact.iter().zip(&computed).map(|(e, c)| (e - f64::from(*c)).abs());
        errors.fold(0.0, f64::max) / peak
    }

    #[test]
    fn the_wave_is_the_exact_one_but_for_an_error_of_second_order_in_time() {
        let dt = default_step(SPEED, DX);
        let (coarse, fine) = (error_of_the_wave(dt), error_of_the_wave(dt / 2.0));
        assert!(fine < 0.02, "off by {:.2} % of the peak", 100.0 * fine);
        let order = (coarse / fine).log2();
        assert!((1.7..2.3).contains(&order), "order {order}: {coarse} became {fine}");
    }
}
