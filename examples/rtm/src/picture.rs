//! The picture: velocity and wavefront, shot record, migrated image.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use embedded_graphics::mono_font::ascii::{FONT_10X20, FONT_9X15, FONT_9X18_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::{
    DrawTarget, Drawable, OriginDimensions, Pixel, Point, RgbColor, Size,
};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use rayon::prelude::*;

use crate::image::percentile;
use crate::model::{sample, Model};

/// A colour, red first.
type Colour = [u8; 3];

const PAPER: Colour = [255, 255, 255];
const INK: Colour = [38, 42, 52];
const FAINT: Colour = [120, 126, 138];

/// Pixels around and between the panels.
const LEFT: usize = 108;
const RIGHT: usize = 36;
const HEADER: usize = 92;
const TITLE: usize = 34;
const AXIS: usize = 62;
const GAP: usize = 172;

/// Width of the migrated image, of the velocity panel and of the shot record.
const WIDE: usize = 1380;
const VELOCITY_WIDE: usize = 800;
const RECORD_WIDE: usize = WIDE - VELOCITY_WIDE - GAP;

/// The share of the values that the migrated image shows unclipped, and that the shot record does.
const IMAGE_CLIP: f32 = 0.988;
const RECORD_CLIP: f32 = 0.97;

/// How much the velocities' colours are lightened under the migrated image.
const PALE: f32 = 0.40;

/// The contents of the picture.
pub(crate) struct Scene<'a> {
    pub model: &'a Model,
    /// The model migrated with.
    pub smooth: &'a Model,
    /// The source's wavefield inside the model.
    pub wavefront: &'a [f32],
    /// The time of the wavefront, in seconds.
    pub wavefront_time: f32,
    /// The shot record, one row of all receivers per step.
    pub traces: &'a [f32],
    /// The receivers' columns.
    pub receivers: &'a [usize],
    /// The time step in seconds.
    pub dt: f32,
    /// The source's column.
    pub source: usize,
    pub image: &'a [f32],
    /// One line on the run.
    pub caption: &'a str,
}

/// A rectangle of pixels.
#[derive(Clone, Copy)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// An axis: first and last value, and what it measures.
struct Axis<'a> {
    from: f32,
    to: f32,
    label: &'a str,
}

/// Pixels to draw on.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = std::convert::Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Self::Error>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(at, colour) in pixels {
            if at.x >= 0 && at.y >= 0 {
                self.set(at.x as usize, at.y as usize, [colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Canvas { width, height, pixels: PAPER.repeat(width * height) }
    }

    fn set(&mut self, x: usize, y: usize, colour: Colour) {
        if x < self.width && y < self.height {
            self.pixels[(y * self.width + x) * 3..][..3].copy_from_slice(&colour);
        }
    }

    fn fill(&mut self, area: Area, colour: Colour) {
        self.paint(area, |_, _| colour);
    }

    /// Colours an area by place, which runs from 0 to 1 across and down.
    fn paint(&mut self, area: Area, colour: impl Fn(f32, f32) -> Colour + Sync) {
        let bytes = self.width * 3;
        let rows = self.pixels.par_chunks_mut(bytes).skip(area.top).take(area.height);
        rows.enumerate().for_each(|(y, row)| {
            let down = (y as f32 + 0.5) / area.height as f32;
            let across = row[area.left * 3..][..area.width * 3].chunks_exact_mut(3);
            for (x, pixel) in across.enumerate() {
                pixel.copy_from_slice(&colour((x as f32 + 0.5) / area.width as f32, down));
            }
        });
    }

    fn text(
        &mut self,
        text: &str,
        at: (usize, usize),
        font: &MonoFont<'_>,
        colour: Colour,
        align: Alignment,
    ) {
        let [r, g, b] = colour;
        let style = MonoTextStyle::new(font, Rgb888::new(r, g, b));
        let layout = TextStyleBuilder::new().alignment(align).baseline(Baseline::Top).build();
        let at = Point::new(at.0 as i32, at.1 as i32);
        // A canvas takes every pixel, so there is no error to see.
        let Ok(_) = Text::with_text_style(text, at, style, layout).draw(self);
    }

    /// Draws frame, title, ticks and labels of a panel.
    fn frame(&mut self, area: Area, title: &str, x: &Axis<'_>, z: &Axis<'_>) {
        let Area { left, top, width, height } = area;
        self.text(title, (left, top - 26), &FONT_9X18_BOLD, INK, Alignment::Left);
        for (dx, dy, w, h) in [
            (0, 0, width, 1),
            (0, height - 1, width, 1),
            (0, 0, 1, height),
            (width - 1, 0, 1, height),
        ] {
            self.fill(Area { left: left + dx, top: top + dy, width: w, height: h }, INK);
        }
        for (value, place) in ticks(x, width / 90) {
            let at = left + (place * (width - 1) as f32).round() as usize;
            self.fill(Area { left: at, top: top + height, width: 1, height: 6 }, INK);
            self.text(&value, (at, top + height + 10), &FONT_9X15, INK, Alignment::Center);
        }
        for (value, place) in ticks(z, height / 60) {
            let at = top + (place * (height - 1) as f32).round() as usize;
            self.fill(Area { left: left - 6, top: at, width: 6, height: 1 }, INK);
            self.text(&value, (left - 10, at.saturating_sub(7)), &FONT_9X15, INK, Alignment::Right);
        }
        let below = top + height + 30;
        self.text(x.label, (left + width / 2, below), &FONT_9X15, FAINT, Alignment::Center);
        self.text(z.label, (left - 10, top - 22), &FONT_9X15, FAINT, Alignment::Right);
    }

    /// Draws a star where the source stands.
    fn star(&mut self, x: usize, y: usize) {
        for dy in -9i32..=9 {
            for dx in -9i32..=9 {
                let size = dx.abs().min(dy.abs()) * 2 + dx.abs().max(dy.abs());
                let colour = if size <= 7 { [214, 40, 57] } else { PAPER };
                if size <= 9 {
                    self.set(
                        (x as i32 + dx).max(0) as usize,
                        (y as i32 + dy).max(0) as usize,
                        colour,
                    );
                }
            }
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        let mut encoder =
            png::Encoder::new(BufWriter::new(file), self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let told = || format!("writing {}", path.display());
        let mut writer = encoder.write_header().with_context(told)?;
        writer.write_image_data(&self.pixels).with_context(told)?;
        writer.finish().with_context(told)
    }
}

/// Round values on an axis, about as many as wanted, with their places from 0 to 1.
fn ticks(axis: &Axis<'_>, wanted: usize) -> Vec<(String, f32)> {
    let span = axis.to - axis.from;
    let raw = span / wanted.max(2) as f32;
    let power = 10f32.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= raw * 0.999);
    let step = step.unwrap_or(raw);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let (first, last) = ((axis.from / step).ceil() as i32, (axis.to / step + 1e-3).floor() as i32);
    (first..=last)
        .map(|n| {
            let value = n as f32 * step;
            (format!("{value:.digits$}"), ((value - axis.from) / span).clamp(0.0, 1.0))
        })
        .collect()
}

/// The colour at `at` (0 to 1) of a scale given by evenly spaced colours.
fn scale(colours: &[Colour], at: f32) -> Colour {
    let at = at.clamp(0.0, 1.0) * (colours.len() - 1) as f32;
    let low = (at as usize).min(colours.len() - 2);
    blend(colours[low], colours[low + 1], at - low as f32)
}

/// The colour that lies `share` of the way from one colour to another.
fn blend(from: Colour, to: Colour, share: f32) -> Colour {
    let share = share.clamp(0.0, 1.0);
    [0, 1, 2].map(|c| (f32::from(from[c]) * (1.0 - share) + f32::from(to[c]) * share).round() as u8)
}

/// Slow to fast: deep blue, teal, sand, rust.
fn velocity_colour(at: f32) -> Colour {
    const COLOURS: [Colour; 6] = [
        [43, 73, 128],
        [62, 132, 160],
        [128, 184, 164],
        [226, 214, 152],
        [222, 152, 86],
        [160, 66, 54],
    ];
    scale(&COLOURS, at)
}

/// Negative to positive (-1 to 1): black over grey to white.
fn grey(value: f32) -> Colour {
    scale(&[[12, 12, 16], [128, 128, 130], [250, 250, 250]], value * 0.5 + 0.5)
}

/// Draws the scene and writes it as a PNG.
pub(crate) fn write(path: &Path, scene: &Scene<'_>) -> Result<()> {
    draw(scene).write(path)
}

fn draw(scene: &Scene<'_>) -> Canvas {
    let Model { nx, nz, dx, .. } = *scene.model;
    let tall = |width: usize| (width * nz / nx).clamp(160, 1400);
    let (upper, lower) = (tall(VELOCITY_WIDE), tall(WIDE));
    let top = HEADER + TITLE;
    let lower_top = top + upper + AXIS + TITLE;
    let mut canvas = Canvas::new(LEFT + WIDE + RIGHT, lower_top + lower + AXIS);

    canvas.text(
        "Reverse-time migration of one shot",
        (LEFT, 22),
        &FONT_10X20,
        INK,
        Alignment::Left,
    );
    canvas.text(scene.caption, (LEFT, 50), &FONT_9X15, FAINT, Alignment::Left);

    let kilometres = |points: usize| (points - 1) as f32 * dx / 1000.0;
    let x = Axis { from: 0.0, to: kilometres(nx), label: "distance, km" };
    let z = Axis { from: 0.0, to: kilometres(nz), label: "depth, km" };
    let place = |u: f32, v: f32| (u * (nx - 1) as f32, v * (nz - 1) as f32);
    let (slow, fast) = scene.model.range();
    let tone = |v: f32| (v - slow) / (fast - slow).max(1.0);

    let area = Area { left: LEFT, top, width: VELOCITY_WIDE, height: upper };
    let loudest = percentile(scene.wavefront, 0.995).max(f32::MIN_POSITIVE);
    canvas.paint(area, |u, v| {
        let (px, pz) = place(u, v);
        let ground = velocity_colour(tone(sample(&scene.model.velocity, nx, nz, px, pz)));
        let wave = sample(scene.wavefront, nx, nz, px, pz) / loudest;
        let light = if wave > 0.0 { [255, 255, 255] } else { [10, 10, 20] };
        blend(ground, light, wave.abs().min(1.0) * 0.85)
    });
    let title = format!("True velocity, and the wave after {:.2} s", scene.wavefront_time);
    canvas.frame(area, &title, &x, &z);
    let star_x = |width: usize| LEFT + scene.source * (width - 1) / (nx - 1);
    canvas.star(star_x(VELOCITY_WIDE), top + 4);
    scale_bar(&mut canvas, Area { left: LEFT + VELOCITY_WIDE + 14, width: 12, ..area }, slow, fast);

    let receivers = scene.receivers.len();
    let rows = scene.traces.len() / receivers;
    let record = Area { left: LEFT + VELOCITY_WIDE + GAP, top, width: RECORD_WIDE, height: upper };
    let loudest = percentile(scene.traces, RECORD_CLIP).max(f32::MIN_POSITIVE);
    canvas.paint(record, |u, v| {
        let (row, receiver) = (v * (rows - 1) as f32, u * (receivers - 1) as f32);
        // Late arrivals are faint: they are shown louder, as is usual for records.
        let value = sample(scene.traces, rows, receivers, row, receiver) / loudest;
        grey(value * (0.25 + 2.0 * v))
    });
    let first = scene.receivers.first().copied().unwrap_or_default();
    let last = scene.receivers.last().copied().unwrap_or_default();
    let (from, to) = (first as f32 * dx / 1000.0, last as f32 * dx / 1000.0);
    let along = Axis { from, to: to.max(from + dx / 1000.0), label: "receiver, km" };
    let time = Axis { from: 0.0, to: rows as f32 * scene.dt, label: "time, s" };
    canvas.frame(record, "Shot record, reflections", &along, &time);

    let area = Area { left: LEFT, top: lower_top, width: WIDE, height: lower };
    let loudest = percentile(scene.image, IMAGE_CLIP).max(f32::MIN_POSITIVE);
    canvas.paint(area, |u, v| {
        let (px, pz) = place(u, v);
        let value = sample(scene.image, nx, nz, px, pz) / loudest;
        let ground = velocity_colour(tone(sample(&scene.smooth.velocity, nx, nz, px, pz)));
        let ground = blend(blend(ground, PAPER, PALE), [150; 3], 0.35);
        blend(ground, if value > 0.0 { PAPER } else { [8, 10, 18] }, value.abs())
    });
    canvas.frame(area, "Migrated image, over the velocities it was migrated with", &x, &z);
    canvas.star(star_x(WIDE), lower_top + 4);
    canvas
}

/// Draws the scale of the velocity colours.
fn scale_bar(canvas: &mut Canvas, area: Area, slow: f32, fast: f32) {
    canvas.paint(area, |_, v| velocity_colour(1.0 - v));
    let axis = Axis { from: slow / 1000.0, to: fast.max(slow + 1.0) / 1000.0, label: "" };
    for (value, place) in ticks(&axis, 5) {
        let at = area.top + ((1.0 - place) * (area.height - 1) as f32).round() as usize;
        let at = (area.left + area.width + 6, at.saturating_sub(7));
        canvas.text(&value, at, &FONT_9X15, INK, Alignment::Left);
    }
    canvas.text("km/s", (area.left, area.top - 22), &FONT_9X15, FAINT, Alignment::Left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_a_readable_png_with_contrast() {
        let model = Model::layered();
        let smooth = model.smoothed(80.0);
        let (nx, nz) = (model.nx, model.nz);
        let stripes: Vec<f32> = (0..nx * nz).map(|i| ((i % nz) as f32 * 0.4).sin()).collect();
        let receivers: Vec<usize> = (0..nx).collect();
        let scene = Scene {
            model: &model,
            smooth: &smooth,
            wavefront: &stripes,
            wavefront_time: 0.5,
            traces: &stripes[..nx * 100],
            receivers: &receivers,
            dt: 0.01,
            source: 20,
            image: &stripes,
            caption: "a test",
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.png");
        write(&path, &scene).unwrap();

        let file = std::io::BufReader::new(File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.width as usize, LEFT + WIDE + RIGHT);
        // The lower half is the migrated image: it must go from dark to light and back.
        let row = info.width as usize * 3;
        let column: Vec<u8> =
            pixels[pixels.len() / 2..].iter().skip(row / 2).step_by(row).copied().collect();
        let (dark, light) =
            (column.iter().filter(|v| **v < 90), column.iter().filter(|v| **v > 180));
        assert!(dark.count() > 50 && light.count() > 50);
    }

    #[test]
    fn ticks_are_round_and_in_place() {
        let axis = Axis { from: 0.0, to: 3.83, label: "" };
        let found = ticks(&axis, 8);
        assert_eq!(found[1].0, "0.5");
        assert_eq!(found.len(), 8);
        assert!((found[4].1 - 2.0 / 3.83).abs() < 1e-5);
    }

    #[test]
    fn a_scale_passes_through_its_colours() {
        assert_eq!(scale(&[[0, 0, 0], [10, 20, 30], [255, 0, 0]], 0.5), [10, 20, 30]);
        assert_eq!(scale(&[[0, 0, 0], [10, 20, 30]], 7.0), [10, 20, 30]);
    }
}
