//! The numbers behind the scheme: difference weights, stable step, absorbing profile, wavelet.

/// Points on either side of the centre that the 8th-order differences reach.
pub(crate) const REACH: usize = 4;

/// Weights of the 8th-order second difference at distance 0 to 4, for a spacing of one.
pub(crate) const SECOND: [f32; 5] =
    [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];

/// Weights of the 8th-order first difference at distance 1 to 4, for a spacing of one. On the other
/// side they have a minus sign.
pub(crate) const FIRST: [f32; 4] = [4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0];

/// The share of the stability limit that the step takes by default.
const COURANT_SHARE: f32 = 0.7;

/// The share of the incoming amplitude that the absorbing border is laid out to return.
const BORDER_RETURN: f32 = 1e-5;

/// The longest time step in seconds that is stable at `fastest` m/s on a grid of `dx` metres.
///
/// The shortest wave that the grid carries is the checkerboard, for which each second
/// difference yields the sum of its weights' magnitudes.
pub(crate) fn longest_step(fastest: f32, dx: f32) -> f32 {
    let weights = SECOND[0].abs() + 2.0 * SECOND[1..].iter().map(|w| w.abs()).sum::<f32>();
    2.0 / (2.0 * weights).sqrt() * dx / fastest
}

/// The default time step in seconds.
pub(crate) fn default_step(fastest: f32, dx: f32) -> f32 {
    COURANT_SHARE * longest_step(fastest, dx)
}

/// A Ricker wavelet with its peak frequency in hertz, one value per step, delayed so that it
/// begins at rest.
pub(crate) fn ricker(frequency: f32, dt: f32, steps: usize) -> Vec<f32> {
    let delay = ricker_delay(frequency);
    (0..steps)
        .map(|step| {
            let phase = std::f32::consts::PI * frequency * (step as f32 * dt - delay);
            (1.0 - 2.0 * phase * phase) * (-phase * phase).exp()
        })
        .collect()
}

/// When the wavelet peaks, in seconds after the start.
pub(crate) fn ricker_delay(frequency: f32) -> f32 {
    1.2 / frequency
}

/// One axis of the convolutional perfectly matched layer (CPML): at each point the memory
/// variable `m` of a derivative `d` follows `m = b * m + a * d`. Inside the model `a` is 0.
#[derive(Clone, Debug)]
pub(crate) struct Absorber {
    /// The gain of the derivative.
    pub a: Vec<f32>,
    /// The decay of the memory.
    pub b: Vec<f32>,
}

impl Absorber {
    /// The profile of an axis of `points`, whose outer [`REACH`] points at each end stay at rest
    /// and whose next `border` points absorb.
    pub(crate) fn new(
        points: usize,
        border: usize,
        fastest: f32,
        dx: f32,
        dt: f32,
        frequency: f32,
    ) -> Self {
        let thickness = border as f32 * dx;
        let damping = -3.0 * fastest * BORDER_RETURN.ln() / (2.0 * thickness);
        let shift = std::f32::consts::PI * frequency;
        let mut profile = Absorber { a: vec![0.0; points], b: vec![0.0; points] };
        for point in 0..points {
            let from_end = point.min(points - 1 - point);
            let inner = REACH + border;
            if from_end >= inner {
                continue;
            }
            let depth = ((inner - from_end) as f32 / border as f32).min(1.0);
            let d = damping * depth * depth;
            let alpha = shift * (1.0 - depth);
            let b = (-(d + alpha) * dt).exp();
            profile.b[point] = b;
            profile.a[point] = d / (d + alpha) * (b - 1.0);
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worst error of both differences for sin(k x) at the given number of points per wave.
    fn errors(points_per_wave: f64) -> (f64, f64) {
        let h = std::f64::consts::TAU / points_per_wave;
        let mut worst = (0.0f64, 0.0f64);
        for step in 0..64 {
            let x = f64::from(step) * 0.1;
            let mut first = 0.0;
            let mut second = exact(SECOND[0]) * x.sin();
            for k in 1..=REACH {
                let (right, left) = ((x + k as f64 * h).sin(), (x - k as f64 * h).sin());
                first += exact(FIRST[k - 1]) * (right - left);
                second += exact(SECOND[k]) * (right + left);
            }
            worst.0 = worst.0.max((first / h - x.cos()).abs());
            worst.1 = worst.1.max((second / (h * h) + x.sin()).abs());
        }
        worst
    }

    /// The rational number that a single-precision weight stands for, so that rounding does not
    /// hide the order of the scheme.
    fn exact(weight: f32) -> f64 {
        const COMMON: f64 = 5040.0;
        (f64::from(weight) * COMMON).round() / COMMON
    }

    #[test]
    fn differences_are_of_eighth_order() {
        let (coarse, fine) = (errors(8.0), errors(16.0));
        let first = (coarse.0 / fine.0).log2();
        let second = (coarse.1 / fine.1).log2();
        assert!((7.5..8.5).contains(&first), "first difference has order {first}");
        assert!((7.5..8.5).contains(&second), "second difference has order {second}");
    }

    #[test]
    fn the_wavelet_starts_at_rest_and_peaks_at_one() {
        let wavelet = ricker(10.0, 0.001, 400);
        assert!(wavelet[0].abs() < 1e-4);
        assert!((wavelet[120] - 1.0).abs() < 1e-5);
        let sum: f32 = wavelet.iter().sum();
        assert!(sum.abs() < 1e-2, "a wavelet with a constant part: {sum}");
    }
}
