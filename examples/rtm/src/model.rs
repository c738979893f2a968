//! Velocity models: read, generated, smoothed, refined.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use rayon::prelude::*;

/// The velocity of water, m/s, in the generated model.
const WATER: f32 = 1500.0;

/// The fastest velocity, m/s, at which the top of a model is taken for water.
const WATER_AT_MOST: f32 = 1600.0;

/// A velocity model on a square grid, depth running fastest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    /// Columns.
    pub nx: usize,
    /// Depth samples.
    pub nz: usize,
    /// Metres from one point to the next.
    pub dx: f32,
    /// Metres per second, `[ix * nz + iz]`.
    pub velocity: Vec<f32>,
}

impl Model {
    /// Reads little-endian 32-bit floats, depth fastest.
    pub(crate) fn read(path: &Path, nx: usize, nz: usize, dx: f32) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let (file, needed) = (bytes.len(), nx * nz * size_of::<f32>());
        let path = path.display();
        ensure!(file == needed, "{path} holds {file} bytes, but {nx} x {nz} values take {needed}");
        let velocity: Vec<f32> = bytes
            .chunks_exact(size_of::<f32>())
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if let Some(at) = velocity.iter().position(|v| !(100.0..=20_000.0).contains(v)) {
            let (value, ix, iz) = (velocity[at], at / nz, at % nz);
            anyhow::bail!("{path} has {value} at column {ix}, depth {iz}: no velocity in m/s");
        }
        Ok(Model { nx, nz, dx, velocity })
    }

    /// The generated model: water over sediments with a gas lens, and below an unconformity
    /// dipping beds cut by a fault, on a basement.
    pub(crate) fn layered() -> Self {
        const SIZE: (usize, usize) = (640, 320);
        const DX: f32 = 6.0;
        /// Samples per cell and axis; their mean slowness keeps slopes from turning into stairs.
        const FINE: usize = 4;
        let (nx, nz) = SIZE;
        let mut velocity = vec![0.0; nx * nz];
        velocity.par_chunks_mut(nz).enumerate().for_each(|(ix, column)| {
            for (iz, v) in column.iter_mut().enumerate() {
                let fine = |cell: usize, part: usize| {
                    (cell as f32 + (part as f32 + 0.5) / FINE as f32 - 0.5) * DX
                };
                let mut slowness = 0.0;
                for part in 0..FINE * FINE {
                    slowness += 1.0 / geology(fine(ix, part / FINE), fine(iz, part % FINE));
                }
                *v = (FINE * FINE) as f32 / slowness;
            }
        });
        Model { nx, nz, dx: DX, velocity }
    }

    /// The velocity at a point, m/s.
    pub(crate) fn at(&self, ix: usize, iz: usize) -> f32 {
        self.velocity[ix * self.nz + iz]
    }

    /// The lowest and the highest velocity, m/s.
    pub(crate) fn range(&self) -> (f32, f32) {
        self.velocity.iter().fold((f32::MAX, 0.0), |(lo, hi), &v| (v.min(lo), v.max(hi)))
    }

    /// The mean velocity, m/s, of a wave's time through the model.
    pub(crate) fn mean(&self) -> f32 {
        let slowness: f64 = self.velocity.iter().map(|&v| 1.0 / f64::from(v)).sum();
        (self.velocity.len() as f64 / slowness) as f32
    }

    /// The number of water samples at the top of a column.
    pub(crate) fn water(&self, ix: usize) -> usize {
        let column = &self.velocity[ix * self.nz..][..self.nz];
        let top = column[0];
        if top > WATER_AT_MOST {
            return 0;
        }
        column.iter().take_while(|v| (*v - top).abs() < 0.01 * top).count()
    }

    /// The model with its slowness averaged over a Gaussian of `radius` metres (one standard
    /// deviation). The water stays as it is and is left out of the averages: its depth is known.
    pub(crate) fn smoothed(&self, radius: f32) -> Self {
        let mut rock = vec![1.0f32; self.velocity.len()];
        for ix in 0..self.nx {
            rock[ix * self.nz..][..self.water(ix)].fill(0.0);
        }
        let slowness: Vec<f32> =
            self.velocity.iter().zip(&rock).map(|(v, rock)| rock / v).collect();
        let blur = |values: &[f32]| blurred(values, (self.nx, self.nz), radius / self.dx);
        let (slowness, share) = (blur(&slowness), blur(&rock));
        let mut smooth = self.clone();
        for (i, v) in smooth.velocity.iter_mut().enumerate() {
            if rock[i] > 0.0 {
                *v = share[i] / slowness[i];
            }
        }
        smooth
    }

    /// The model on a grid `times` finer, its values interpolated linearly.
    pub(crate) fn refined(&self, times: usize) -> Self {
        let (nx, nz) = ((self.nx - 1) * times + 1, (self.nz - 1) * times + 1);
        let mut velocity = Vec::with_capacity(nx * nz);
        for ix in 0..nx {
            for iz in 0..nz {
                let place = |i: usize| (i as f32) / times as f32;
                velocity.push(sample(&self.velocity, self.nx, self.nz, place(ix), place(iz)));
            }
        }
        Model { nx, nz, dx: self.dx / times as f32, velocity }
    }
}

/// The value between grid points, linearly from the four around it.
pub(crate) fn sample(values: &[f32], nx: usize, nz: usize, x: f32, z: f32) -> f32 {
    let split = |at: f32, points: usize| {
        let at = at.clamp(0.0, (points - 1) as f32);
        let low = (at as usize).min(points.saturating_sub(2));
        (low, (low + 1).min(points - 1), at - low as f32)
    };
    let ((left, right, wx), (up, down, wz)) = (split(x, nx), split(z, nz));
    let column = |ix: usize| values[ix * nz + up] * (1.0 - wz) + values[ix * nz + down] * wz;
    column(left) * (1.0 - wx) + column(right) * wx
}

/// The values averaged over a Gaussian of `radius` points (one standard deviation). Points outside
/// count as the end value.
pub(crate) fn blurred(values: &[f32], (nx, nz): (usize, usize), radius: f32) -> Vec<f32> {
    let reach = (3.0 * radius).ceil() as usize;
    let weights: Vec<f32> =
        (0..=reach).map(|k| (-0.5 * (k as f32 / radius.max(1e-6)).powi(2)).exp()).collect();
    let total = weights[0] + 2.0 * weights[1..].iter().sum::<f32>();
    // One column of the result is the weighted sum of whole columns, and so with single values.
    let mut across = vec![0.0; values.len()];
    across.par_chunks_mut(nz).enumerate().for_each(|(ix, out)| {
        for (k, weight) in weights.iter().enumerate() {
            let (left, right) = (ix.saturating_sub(k) * nz, (ix + k).min(nx - 1) * nz);
            let share = if k == 0 { 0.5 } else { 1.0 } * weight / total;
            for (out, (l, r)) in out.iter_mut().zip(values[left..].iter().zip(&values[right..])) {
                *out += share * (l + r);
            }
        }
    });
    let mut both = vec![0.0; values.len()];
    both.par_chunks_mut(nz).zip(across.par_chunks(nz)).for_each(|(out, column)| {
        for (iz, out) in out.iter_mut().enumerate() {
            for (k, weight) in weights.iter().enumerate() {
                let pair = column[iz.saturating_sub(k)] + column[(iz + k).min(nz - 1)];
                *out += if k == 0 { 0.5 } else { 1.0 } * weight / total * pair;
            }
        }
    });
    both
}

/// The generated model's velocity in m/s at `x` and depth `z` in metres.
fn geology(x: f32, z: f32) -> f32 {
    let wave = |length: f32, phase: f32| (std::f32::consts::TAU * (x / length + phase)).sin();
    if z < 176.0 + 10.0 * wave(2600.0, 0.1) {
        return WATER;
    }
    // The gas lens.
    let (lens_x, lens_z) = ((x - 2330.0) / 300.0, (z - 560.0) / 34.0);
    if lens_x * lens_x + lens_z * lens_z < 1.0 {
        return 1580.0;
    }
    // Sediments laid flat over older beds that had been folded and worn down.
    let unconformity = 800.0 + 30.0 * wave(4400.0, 0.3);
    if z < unconformity {
        let beds = [
            (320.0 + 14.0 * wave(1900.0, 0.0), 1680.0),
            (440.0 + 12.0 * wave(2700.0, 0.4), 1880.0),
            (660.0 + 22.0 * wave(3300.0, 0.7), 2060.0),
        ];
        return beds.iter().find(|(base, _)| z < *base).map_or(2240.0, |(_, v)| *v);
    }
    let basement = 1690.0 + 30.0 * wave(3600.0, 0.05);
    if z > basement {
        return 3900.0;
    }
    // Beds that dip to the left, dropped by 88 m on the far side of a fault that leans the same way.
    let mut height = z + 0.085 * (x - 1900.0) + 14.0 * wave(1500.0, 0.2);
    if x > 2160.0 - 0.42 * (z - 800.0) {
        height -= 88.0;
    }
    let beds = [
        (900.0, 2420.0),
        (1010.0, 2680.0),
        (1120.0, 2460.0),
        (1270.0, 2860.0),
        (1350.0, 2620.0),
        (1500.0, 3040.0),
        (1610.0, 2800.0),
    ];
    beds.iter().find(|(base, _)| height < *base).map_or(3250.0, |(_, v)| *v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_model_has_water_on_top_and_rock_of_known_speeds() {
        let model = Model::layered();
        let (low, high) = model.range();
        assert!(low >= 1490.0 && high <= 3910.0, "{low} to {high}");
        for ix in 0..model.nx {
            let depth = model.water(ix) as f32 * model.dx;
            assert!((150.0..200.0).contains(&depth), "water of {depth} m in column {ix}");
        }
    }

    #[test]
    fn smoothing_keeps_the_water_and_an_even_rock() {
        let (nx, nz) = (30, 40);
        let velocity = (0..nx * nz).map(|i| if i % nz < 10 { 1500.0 } else { 2500.0 }).collect();
        let model = Model { nx, nz, dx: 10.0, velocity };
        let smooth = model.smoothed(50.0);
        for (was, is) in model.velocity.iter().zip(&smooth.velocity) {
            assert!((was - is).abs() < 0.5, "{was} became {is}");
        }
    }

    #[test]
    fn smoothing_takes_the_edges_out() {
        let smooth = Model::layered().smoothed(80.0);
        let steepest = smooth
            .velocity
            .chunks(smooth.nz)
            .flat_map(|column| column[40..].windows(2).map(|w| (w[1] - w[0]).abs()))
            .fold(0.0, f32::max);
        assert!(steepest < 60.0, "a jump of {steepest} m/s is left");
    }

    #[test]
    fn refining_keeps_the_points_it_had() {
        let model = Model { nx: 2, nz: 3, dx: 4.0, velocity: vec![1.0, 2.0, 3.0, 5.0, 6.0, 9.0] };
        let fine = model.refined(2);
        assert_eq!((fine.nx, fine.nz, fine.dx), (3, 5, 2.0));
        assert_eq!(fine.at(2, 4), 9.0);
        assert_eq!(fine.at(1, 1), 3.5);
    }

    #[test]
    fn a_file_of_the_wrong_size_is_refused_with_both_sizes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0u8; 20]).unwrap();
        let error = Model::read(file.path(), 3, 2, 1.0).unwrap_err().to_string();
        assert!(error.contains("20 bytes") && error.contains("24"), "{error}");
    }
}
