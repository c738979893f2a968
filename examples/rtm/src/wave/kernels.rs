//! The inner loops, on plain slices. The host runs them as they are, and so does the software
//! device in place of the GPU's; `kernels/rtm.cu` has the same loops in CUDA C.
//!
//! Columns are computed in parallel; no value depends on their order.

// Several arrays are read around each point, so loops over an index are clearest.
#![allow(clippy::needless_range_loop)]

use rayon::prelude::*;

use super::coefficients::{Absorber, FIRST, REACH, SECOND};
use super::Grid;

/// Columns that one task takes at a time.
const COLUMNS: usize = 8;

/// Values smaller than this become zero. The scheme spreads ever smaller values ahead of the wave,
/// down to some that a processor computes a hundred times slower; a GPU does not need this.
const NOTHING: f32 = 1e-30;

/// The value, or zero where it is [`NOTHING`].
#[inline(always)]
fn settled(value: f32) -> f32 {
    if value.abs() < NOTHING {
        0.0
    } else {
        value
    }
}

/// Nine equally long runs of values: `run[REACH]` starts at a point, the others as many strides
/// before and after it. Loops over them need no bounds checks and become vector instructions.
#[derive(Clone, Copy)]
struct Runs<'a> {
    run: [&'a [f32]; 2 * REACH + 1],
}

impl<'a> Runs<'a> {
    /// The runs of `n` values around the one that starts at `here`, `stride` apart.
    #[inline(always)]
    fn new(field: &'a [f32], here: usize, stride: usize, n: usize) -> Self {
        let run = std::array::from_fn(|k| &field[here + k * stride - REACH * stride..][..n]);
        Runs { run }
    }

    /// The first difference at `i`, for a spacing of one.
    #[inline(always)]
    fn first(&self, i: usize) -> f32 {
        let [l4, l3, l2, l1, _, r1, r2, r3, r4] = self.run;
        FIRST[0] * (r1[i] - l1[i])
            + FIRST[1] * (r2[i] - l2[i])
            + FIRST[2] * (r3[i] - l3[i])
            + FIRST[3] * (r4[i] - l4[i])
    }

    /// The second difference at `i`, for a spacing of one.
    #[inline(always)]
    fn second(&self, i: usize) -> f32 {
        let [l4, l3, l2, l1, centre, r1, r2, r3, r4] = self.run;
        SECOND[0] * centre[i]
            + SECOND[1] * (r1[i] + l1[i])
            + SECOND[2] * (r2[i] + l2[i])
            + SECOND[3] * (r3[i] + l3[i])
            + SECOND[4] * (r4[i] + l4[i])
    }
}

/// The ranges of an axis, both ends of it, that lie within `width` points of the points at rest.
fn ends(points: usize, width: usize) -> [std::ops::Range<usize>; 2] {
    let far = points - REACH - width;
    [REACH..REACH + width, far..points - REACH]
}

/// An [`Absorber`]'s values, wherever they lie.
#[derive(Clone, Copy)]
pub(crate) struct Profile<'a> {
    /// The gain of the derivative at each point of the axis.
    pub a: &'a [f32],
    /// The decay of the memory at each point of the axis.
    pub b: &'a [f32],
}

impl<'a> From<&'a Absorber> for Profile<'a> {
    fn from(absorber: &'a Absorber) -> Self {
        Profile { a: &absorber.a, b: &absorber.b }
    }
}

/// The memory variables of the absorbing border.
pub(crate) struct Memory<'a> {
    /// Memory of the first difference along x.
    pub psi_x: &'a [f32],
    /// Memory of the first difference along depth.
    pub psi_z: &'a [f32],
    /// Memory of the second difference along x.
    pub zeta_x: &'a mut [f32],
    /// Memory of the second difference along depth.
    pub zeta_z: &'a mut [f32],
}

/// First half of a step: the border's memory of the first differences of `field`.
pub(crate) fn border(
    grid: Grid,
    field: &[f32],
    absorb: (Profile<'_>, Profile<'_>),
    psi_x: &mut [f32],
    psi_z: &mut [f32],
) {
    let (along_x, along_z) = absorb;
    let (px, pz) = (grid.px(), grid.pz());
    let absorbing = Grid::PAD - REACH;
    let columns = psi_x.par_chunks_mut(pz).zip(psi_z.par_chunks_mut(pz)).with_min_len(COLUMNS);
    columns.enumerate().for_each(|(ix, (psi_x, psi_z))| {
        if ix < REACH || ix >= px - REACH {
            return;
        }
        let column = ix * pz;
        if ix < Grid::PAD || ix >= px - Grid::PAD {
            let n = pz - 2 * REACH;
            let across = Runs::new(field, column + REACH, pz, n);
            let (a, b) = (along_x.a[ix], along_x.b[ix]);
            let psi = &mut psi_x[REACH..][..n];
            for i in 0..n {
                psi[i] = settled(b * psi[i] + a * across.first(i));
            }
        }
        for end in ends(pz, absorbing) {
            let (from, n) = (end.start, end.len());
            let down = Runs::new(field, column + from, 1, n);
            let (a, b) = (&along_z.a[end.clone()][..n], &along_z.b[end.clone()][..n]);
            let psi = &mut psi_z[end][..n];
            for i in 0..n {
                psi[i] = settled(b[i] * psi[i] + a[i] * down.first(i));
            }
        }
    });
}

/// Second half of a step: `other` holds the wavefield before `field` and gets the wavefield after
/// it.
pub(crate) fn step(
    grid: Grid,
    field: &[f32],
    other: &mut [f32],
    courant2: &[f32],
    absorb: (Profile<'_>, Profile<'_>),
    memory: Memory<'_>,
) {
    let (along_x, along_z) = absorb;
    let (px, pz) = (grid.px(), grid.pz());
    let (psi_x, psi_z) = (memory.psi_x, memory.psi_z);
    let columns = other
        .par_chunks_mut(pz)
        .zip(memory.zeta_x.par_chunks_mut(pz))
        .zip(memory.zeta_z.par_chunks_mut(pz))
        .with_min_len(COLUMNS);
    columns.enumerate().for_each(|(ix, ((next, zeta_x), zeta_z))| {
        if ix < REACH || ix >= px - REACH {
            return;
        }
        let column = ix * pz;
        let courant2 = &courant2[column..][..pz];
        let n = pz - 2 * REACH;
        let (across, down) =
            (Runs::new(field, column + REACH, pz, n), Runs::new(field, column + REACH, 1, n));
        leap(across, down, &mut next[REACH..][..n], &courant2[REACH..][..n]);
        // The border's share. The first difference of psi reaches as far into the model.
        if ix < Grid::PAD + REACH || ix >= px - Grid::PAD - REACH {
            let slope = Runs::new(psi_x, column + REACH, pz, n);
            let (a, b) = (along_x.a[ix], along_x.b[ix]);
            let (zeta, next) = (&mut zeta_x[REACH..][..n], &mut next[REACH..][..n]);
            let courant2 = &courant2[REACH..][..n];
            for i in 0..n {
                let slope = slope.first(i);
                zeta[i] = settled(b * zeta[i] + a * (across.second(i) + slope));
                next[i] += courant2[i] * (slope + zeta[i]);
            }
        }
        for end in ends(pz, Grid::PAD) {
            let (from, n) = (end.start, end.len());
            let (down, slope) =
                (Runs::new(field, column + from, 1, n), Runs::new(psi_z, column + from, 1, n));
            let (a, b) = (&along_z.a[end.clone()][..n], &along_z.b[end.clone()][..n]);
            let (zeta, next) = (&mut zeta_z[end.clone()][..n], &mut next[end.clone()][..n]);
            let courant2 = &courant2[end][..n];
            for i in 0..n {
                let slope = slope.first(i);
                zeta[i] = settled(b[i] * zeta[i] + a[i] * (down.second(i) + slope));
                next[i] += courant2[i] * (slope + zeta[i]);
            }
        }
    });
}

/// One column of the plain scheme, without the border: the loop that takes most of the time.
#[inline(always)]
fn leap(across: Runs<'_>, down: Runs<'_>, next: &mut [f32], courant2: &[f32]) {
    let n = next.len();
    let courant2 = &courant2[..n];
    let centre = &across.run[REACH][..n];
    for i in 0..n {
        let bend = across.second(i) + down.second(i);
        next[i] = settled(2.0 * centre[i] - next[i] + courant2[i] * bend);
    }
}

/// Adds one sample per place to the wavefield, weighted as the scheme weighs a source.
pub(crate) fn inject(field: &mut [f32], courant2: &[f32], places: &[u32], samples: &[f32]) {
    for (&place, sample) in places.iter().zip(samples) {
        let place = place as usize;
        field[place] += courant2[place] * sample;
    }
}

/// Reads the wavefield at each place.
pub(crate) fn record(field: &[f32], places: &[u32], samples: &mut [f32]) {
    for (&place, sample) in places.iter().zip(samples) {
        *sample = field[place as usize];
    }
}

/// Copies the wavefield inside the model, without the borders.
pub(crate) fn snapshot(grid: Grid, field: &[f32], state: &mut [f32]) {
    for (ix, state) in state.chunks_mut(grid.nz).enumerate() {
        state.copy_from_slice(&field[grid.place(ix, 0)..][..grid.nz]);
    }
}

/// Adds state times wavefield to the image and the state's square to the illumination.
pub(crate) fn correlate(
    grid: Grid,
    field: &[f32],
    state: &[f32],
    image: &mut [f32],
    illumination: &mut [f32],
) {
    let columns = state.par_chunks(grid.nz).zip(image.par_chunks_mut(grid.nz));
    columns.zip(illumination.par_chunks_mut(grid.nz)).with_min_len(COLUMNS).enumerate().for_each(
        |(ix, ((state, image), illumination))| {
            let field = &field[grid.place(ix, 0)..][..grid.nz];
            for (((s, f), i), l) in state.iter().zip(field).zip(image).zip(illumination) {
                *i += s * f;
                *l += s * s;
            }
        },
    );
}
