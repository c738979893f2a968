//! The propagator on the processor's own cores.

use std::ffi::c_void;

use anyhow::Result;

use super::coefficients::Absorber;
use super::kernels::{self, Memory};
use super::{Grid, Medium, Propagator, Spread};

/// The wavefields and all arrays in plain memory, stepped by the threads of rayon's pool.
pub(crate) struct Host {
    device: String,
    grid: Grid,
    spread: Spread,
    wavelet: Vec<f32>,
    absorb_x: Absorber,
    absorb_z: Absorber,
    courant2: Vec<f32>,
    field: Vec<f32>,
    other: Vec<f32>,
    psi_x: Vec<f32>,
    psi_z: Vec<f32>,
    zeta_x: Vec<f32>,
    zeta_z: Vec<f32>,
    traces: Vec<f32>,
    state: Vec<f32>,
    image: Vec<f32>,
    illumination: Vec<f32>,
}

impl Host {
    /// A propagator at rest, with an empty medium. It takes as many steps as the wavelet has
    /// samples.
    pub(crate) fn new(grid: Grid, spread: Spread, wavelet: Vec<f32>) -> Self {
        let field = || vec![0.0; grid.padded()];
        let model = || vec![0.0; grid.points()];
        let still = |points| Absorber { a: vec![0.0; points], b: vec![0.0; points] };
        let threads = rayon::current_num_threads();
        Host {
            device: format!("host, {threads} thread{}", if threads == 1 { "" } else { "s" }),
            absorb_x: still(grid.px()),
            absorb_z: still(grid.pz()),
            courant2: field(),
            field: field(),
            other: field(),
            psi_x: field(),
            psi_z: field(),
            zeta_x: field(),
            zeta_z: field(),
            traces: vec![0.0; wavelet.len() * spread.receivers.len()],
            state: model(),
            image: model(),
            illumination: model(),
            grid,
            spread,
            wavelet,
        }
    }

    /// The range of the samples of a row in the traces.
    fn row(&self, row: usize) -> std::ops::Range<usize> {
        let receivers = self.spread.receivers.len();
        row * receivers..(row + 1) * receivers
    }
}

impl Propagator for Host {
    fn device(&self) -> &str {
        &self.device
    }

    fn stream(&self) -> *mut c_void {
        std::ptr::null_mut()
    }

    fn load(&mut self, medium: &Medium) -> Result<()> {
        anyhow::ensure!(medium.grid == self.grid, "the medium is on another grid");
        self.courant2.copy_from_slice(&medium.courant2);
        self.absorb_x = medium.absorb_x.clone();
        self.absorb_z = medium.absorb_z.clone();
        self.rest()
    }

    fn rest(&mut self) -> Result<()> {
        let fields = [&mut self.field, &mut self.other, &mut self.psi_x, &mut self.psi_z];
        for values in fields.into_iter().chain([&mut self.zeta_x, &mut self.zeta_z]) {
            values.fill(0.0);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let absorb = ((&self.absorb_x).into(), (&self.absorb_z).into());
        kernels::border(self.grid, &self.field, absorb, &mut self.psi_x, &mut self.psi_z);
        let memory = Memory {
            psi_x: &self.psi_x,
            psi_z: &self.psi_z,
            zeta_x: &mut self.zeta_x,
            zeta_z: &mut self.zeta_z,
        };
        kernels::step(self.grid, &self.field, &mut self.other, &self.courant2, absorb, memory);
        std::mem::swap(&mut self.field, &mut self.other);
        Ok(())
    }

    fn fire(&mut self, row: usize) -> Result<()> {
        let place = [self.spread.source];
        kernels::inject(&mut self.field, &self.courant2, &place, &self.wavelet[row..=row]);
        Ok(())
    }

    fn record(&mut self, row: usize) -> Result<()> {
        let row = self.row(row);
        kernels::record(&self.field, &self.spread.receivers, &mut self.traces[row]);
        Ok(())
    }

    fn inject(&mut self, row: usize) -> Result<()> {
        let row = self.row(row);
        let places = &self.spread.receivers;
        kernels::inject(&mut self.field, &self.courant2, places, &self.traces[row]);
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        kernels::snapshot(self.grid, &self.field, &mut self.state);
        Ok(())
    }

    fn correlate(&mut self) -> Result<()> {
        let (image, illumination) = (&mut self.image, &mut self.illumination);
        kernels::correlate(self.grid, &self.field, &self.state, image, illumination);
        Ok(())
    }

    fn clear_image(&mut self) -> Result<()> {
        self.image.fill(0.0);
        self.illumination.fill(0.0);
        Ok(())
    }

    fn state(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn read_state(&mut self, into: &mut [f32]) -> Result<()> {
        into.copy_from_slice(&self.state);
        Ok(())
    }

    fn write_state(&mut self, from: &[f32]) -> Result<()> {
        self.state.copy_from_slice(from);
        Ok(())
    }

    fn read_traces(&mut self, into: &mut [f32]) -> Result<()> {
        into.copy_from_slice(&self.traces);
        Ok(())
    }

    fn write_traces(&mut self, from: &[f32]) -> Result<()> {
        self.traces.copy_from_slice(from);
        Ok(())
    }

    fn read_image(&mut self, image: &mut [f32], illumination: &mut [f32]) -> Result<()> {
        image.copy_from_slice(&self.image);
        illumination.copy_from_slice(&self.illumination);
        Ok(())
    }
}
