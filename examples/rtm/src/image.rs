//! From the raw correlation to an image of reflectors.

use crate::model::{blurred, Model};
use crate::shot::WIDEST;

/// The share of the mean illumination that keeps dark places from being divided by nothing.
const FLOOR: f32 = 0.02;

/// How far to each side the image stays visible, as a share of the spread on that side: a little
/// more than the half that flat ground would show.
const SEEN: f32 = 0.75;

/// The share of the mean square that [`balanced`] counts as nothing.
const FAINTEST: f32 = 0.1;

/// The image of reflectors: the correlation divided by the source's illumination, its slow
/// backscatter taken out by a Laplacian, and muted in the water and above `mute` metres below the
/// water's bottom, where source and receivers leave their prints.
pub(crate) fn reflectivity(
    raw: &[f32],
    illumination: &[f32],
    smooth: &Model,
    mute: f32,
) -> Vec<f32> {
    let (nx, nz) = (smooth.nx, smooth.nz);
    let mean = illumination.iter().map(|&l| f64::from(l)).sum::<f64>() / illumination.len() as f64;
    let floor = (FLOOR * mean as f32).max(f32::MIN_POSITIVE);
    let even: Vec<f32> = raw.iter().zip(illumination).map(|(r, l)| r / (l + floor)).collect();
    let mut image = vec![0.0; nx * nz];
    for ix in 1..nx - 1 {
        let start = smooth.water(ix) as f32;
        for iz in 1..nz - 1 {
            let i = ix * nz + iz;
            let around = even[i - 1] + even[i + 1];
            let below = (iz as f32 - start) * smooth.dx / mute;
            image[i] = (2.0 * even[i] - around) * ramp(below);
        }
    }
    image
}

/// Evens out the contrast over depth: divides each depth by the strength around it, a Gaussian of
/// `radius` points, where the strength is more than a share of the whole image's. All columns are
/// treated alike, so that the image stays fainter at the sides, where the shot sees less.
pub(crate) fn balanced(image: &[f32], (nx, nz): (usize, usize), radius: f32) -> Vec<f32> {
    let mut power = vec![0.0; nz];
    for column in image.chunks(nz) {
        for (sum, v) in power.iter_mut().zip(column) {
            *sum += v * v / nx as f32;
        }
    }
    let near = blurred(&power, (1, nz), radius);
    let mean = power.iter().sum::<f32>() / nz as f32;
    let floor = (FAINTEST * mean).max(f32::MIN_POSITIVE);
    image.iter().enumerate().map(|(i, v)| v / (near[i % nz] + floor).sqrt()).collect()
}

/// Fades the image out where the spread cannot see a reflector: a wave that goes down from the
/// source's column and up again reaches half as far to each side as the receivers stand, and at
/// small depths no further than the widest angle that is migrated.
pub(crate) fn fade_unseen(image: &mut [f32], nz: usize, source: usize, receivers: &[usize]) {
    let reach = |side: usize| (side as f32 * SEEN).max(1.0);
    let left = reach(source.saturating_sub(receivers.first().copied().unwrap_or(source)));
    let right = reach(receivers.last().copied().unwrap_or(source).saturating_sub(source));
    for (ix, column) in image.chunks_mut(nz).enumerate() {
        let far = if ix < source { left } else { right };
        let away = ix.abs_diff(source) as f32;
        for (iz, value) in column.iter_mut().enumerate() {
            let edge = far.min(iz as f32 * WIDEST.to_radians().tan()).max(1.0);
            *value *= ramp(1.5 - away / edge);
        }
    }
}

/// A smooth rise from 0 at a half to 1 at one.
fn ramp(x: f32) -> f32 {
    let x = ((x - 0.5) * 2.0).clamp(0.0, 1.0);
    x * x * (3.0 - 2.0 * x)
}

/// The magnitude that `share` of the values (0 to 1) stay below.
pub(crate) fn percentile(values: &[f32], share: f32) -> f32 {
    let mut sizes: Vec<f32> = values.iter().map(|v| v.abs()).collect();
    if sizes.is_empty() {
        return 0.0;
    }
    let at = ((sizes.len() - 1) as f32 * share) as usize;
    *sizes.select_nth_unstable_by(at, f32::total_cmp).1
}

/// Where two images first differ in any bit: column, depth sample, and both values.
pub(crate) fn first_difference(
    a: &[f32],
    b: &[f32],
    nz: usize,
) -> Option<(usize, usize, f32, f32)> {
    let at = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits())?;
    Some((at / nz, at % nz, a[at], b[at]))
}

/// How far an image is from another: the root mean square of their difference, as a part of the other's.
pub(crate) fn difference(found: &[f32], wanted: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pairs = found.iter().zip(wanted);
    let all = square(&mut wanted.iter().map(|v| f64::from(*v)));
    (square(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b))) / all).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_and_a_slope_are_filtered_out() {
        let (nx, nz) = (20, 30);
        let model = Model { nx, nz, dx: 10.0, velocity: vec![2000.0; nx * nz] };
        let slope: Vec<f32> = (0..nx * nz).map(|i| 3.0 + (i % nz) as f32).collect();
        let image = reflectivity(&slope, &vec![1.0; nx * nz], &model, 50.0);
        assert!(image.iter().all(|v| v.abs() < 1e-4));
    }

    #[test]
    fn the_mute_spares_what_lies_deeper() {
        let (nx, nz) = (20, 30);
        let model = Model { nx, nz, dx: 10.0, velocity: vec![2000.0; nx * nz] };
        let rough: Vec<f32> = (0..nx * nz).map(|i| (i % 2) as f32).collect();
        let image = reflectivity(&rough, &vec![1.0; nx * nz], &model, 100.0);
        assert!(image[5 * nz..][..6].iter().all(|v| *v == 0.0));
        assert!(image[5 * nz + 10..][..19].iter().all(|v| v.abs() > 0.5));
    }

    #[test]
    fn balancing_lifts_the_faint_half_towards_the_strong_one() {
        let (nx, nz) = (60, 80);
        let strength = |iz: usize| if iz < nz / 2 { 1.0 } else { 0.2 };
        let image: Vec<f32> = (0..nx * nz).map(|i| strength(i % nz) * (i as f32).sin()).collect();
        let even = balanced(&image, (nx, nz), 5.0);
        let loud = |from: usize| {
            (0..nx).flat_map(|ix| &even[ix * nz + from..][..20]).fold(0.0f32, |m, v| m.max(v.abs()))
        };
        let share = loud(55) / loud(5);
        assert!((0.4..1.0).contains(&share), "{share}");
    }

    #[test]
    fn what_the_spread_cannot_see_fades_out() {
        let (nx, nz, source) = (101, 100, 50);
        let receivers: Vec<usize> = (10..91).collect();
        let mut image = vec![1.0; nx * nz];
        fade_unseen(&mut image, nz, source, &receivers);
        let at = |ix: usize, iz: usize| image[ix * nz + iz];
        assert_eq!((at(source, 5), at(source + 15, 90)), (1.0, 1.0));
        assert_eq!((at(source + 20, 5), at(0, 90), at(100, 90)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn percentiles_ignore_the_sign() {
        let values = [-4.0, 1.0, -2.0, 3.0, 0.0];
        assert_eq!(percentile(&values, 1.0), 4.0);
        assert_eq!(percentile(&values, 0.5), 2.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_difference_is_a_part() {
        assert!((difference(&[3.0, 4.0], &[3.0, 5.0]) - (1.0f64 / 34.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn the_first_differing_bit_is_found() {
        assert_eq!(first_difference(&[0.0, 1.0], &[0.0, 1.0], 2), None);
        assert_eq!(first_difference(&[0.0; 4], &[0.0, 0.0, 0.0, -0.0], 2), Some((1, 1, 0.0, -0.0)));
    }
}
