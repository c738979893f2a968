//! Reverse-time migration of one seismic shot, with its wavefields kept by the checkpoint library.
//!
//! A survey fires a source and records what the ground sends back. The migration computes the
//! source's wavefield forward in time and the recorded one backward, both in a smooth model of
//! the velocities; where the two meet at the same time, something reflected. They run in opposite
//! directions of time, so one of them has to be kept: here the source's, every few steps, as a
//! checkpoint of the library, and from the device's own memory where there is one.
//!
//! The command line is in [`options`] and the library's configuration in [`settings`]; [`model`]
//! has the velocities, [`wave`] the wave equation and the devices that step it, [`shot`] the
//! passes, [`store`] and [`compress`] the places where wavefields wait between the passes, and
//! [`image`], [`picture`], [`progress`] and [`report`] the results.

mod compress;
mod image;
mod model;
mod options;
mod picture;
mod progress;
mod report;
mod settings;
mod shot;
mod store;
mod wave;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use console::style;
use veloc_client::capi::VELOC_Metrics;

use model::Model;
use options::{Device, Options, Plan, Unfit};
use progress::Progress;
use report::{Figures, Plain};
use settings::Settings;
use shot::{Frame, Times};
use store::{InMemory, Library, Usage};
use wave::coefficients::{ricker, ricker_delay};
use wave::cuda::{self, Cuda};
use wave::host::Host;
use wave::{Medium, Propagator, Spread};

fn main() -> ExitCode {
    let options = Options::parse();
    if std::env::var_os("VELOC_LOG").is_none() {
        // The program's first lines say what the library would say of the device.
        std::env::set_var("VELOC_LOG", "error");
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast::<Unfit>() {
            Ok(Unfit(message)) => {
                Options::command().error(ErrorKind::ValueValidation, message).exit()
            }
            Err(error) => {
                eprintln!("{} {error:#}", style("error:").for_stderr().red().bold());
                ExitCode::FAILURE
            }
        },
    }
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

/// The true model and the one to migrate with.
fn models(options: &Options) -> Result<(Model, Model)> {
    let times = usize::from(options.refine);
    let (Some(path), Some((nx, nz, dx))) = (&options.velocity, options.file_size()) else {
        let model = Model::layered();
        let smooth = model.smoothed(options.smoothing(model.dx / f32::from(options.refine)));
        return Ok((model.refined(times), smooth.refined(times)));
    };
    let read = |option: &str, path| {
        Model::read(path, nx, nz, dx).map_err(|error| Unfit(format!("{option} {error:#}")))
    };
    let model = read("--velocity", path)?;
    let smooth = match &options.migration_velocity {
        Some(path) => read("--migration-velocity", path)?,
        None => model.smoothed(options.smoothing(dx)),
    };
    Ok((model.refined(times), smooth.refined(times)))
}

/// The device to compute on, and whether it is the software device.
fn device(options: &Options, plan: &Plan) -> Result<(Box<dyn Propagator>, bool)> {
    let grid = plan.grid;
    let place = |ix| grid.place(ix, plan.receivers.1) as u32;
    let spread = Spread {
        source: grid.place(plan.source.0, plan.source.1) as u32,
        receivers: plan.receivers.0.iter().map(|&ix| place(ix)).collect(),
    };
    let wavelet = ricker(plan.frequency, plan.dt, plan.schedule.steps);
    let gpu = match options.device {
        Device::Host => false,
        Device::Auto => cuda::available().is_ok(),
        Device::Gpu => true,
    };
    if !gpu {
        return Ok((Box::new(Host::new(grid, spread, wavelet)), false));
    }
    let cuda = Cuda::new(grid, &spread, &wavelet).context("--device gpu")?;
    let software = cuda.is_software();
    Ok((Box::new(cuda), software))
}

/// Image and illumination as they come from the device.
struct Migrated {
    image: Vec<f32>,
    illumination: Vec<f32>,
}

impl Migrated {
    fn read(device: &mut dyn Propagator, points: usize) -> Result<Self> {
        let mut migrated = Migrated { image: vec![0.0; points], illumination: vec![0.0; points] };
        device.read_image(&mut migrated.image, &mut migrated.illumination)?;
        Ok(migrated)
    }
}

/// The migration with its wavefields in the library.
struct Migration {
    result: Migrated,
    frame: Frame,
    forward: Times,
    backward: Times,
    usage: Usage,
    metrics: VELOC_Metrics,
}

fn migrate(
    options: &Options,
    plan: &Plan,
    device: &mut dyn Propagator,
    medium: &Medium,
    traces: &[f32],
    progress: &Progress,
) -> Result<Migration> {
    let (schedule, points) = (plan.schedule, plan.grid.points());
    let states = schedule.checkpoints() * points * size_of::<f32>();
    let settings = Settings::new(options, states)?;
    let drain = !settings.temporary();
    let mut library = Library::new(settings.path(), device, points, options.form(), drain)?;

    // The wave is shown when it has come some way down, or at the end of a shorter run.
    let version = (schedule.checkpoints() * 3 / 10) as i32;
    let mut frame = Frame { version, values: vec![0.0; points] };
    let bar = progress.phase("forward", schedule.steps);
    let forward = shot::forward(device, medium, schedule, &mut library, Some(&mut frame), &bar)?;
    let kept = report::bytes(library.usage().kept_bytes);
    let text = format!(
        "{}: the source's wavefield, {} checkpoints of {kept} in all",
        report::time(forward.wall),
        schedule.checkpoints()
    );
    progress.done(&bar, &text);

    let bar = progress.phase("backward", schedule.steps);
    let backward = shot::backward(device, schedule, traces, &mut library, &bar)?;
    let text = format!(
        "{}: the receivers' wavefield, checkpoints restored in reverse",
        report::time(backward.wall)
    );
    progress.done(&bar, &text);

    let result = Migrated::read(device, points)?;
    let (usage, metrics) = (library.usage(), library.metrics()?);
    library.finish()?;
    Ok(Migration { result, frame, forward, backward, usage, metrics })
}

/// Migrates again with every state in plain memory and compares the images bit by bit, or tells how far they are
/// from each other, where states were kept with fewer bits. Returns the times of both passes.
fn verify(
    options: &Options,
    plan: &Plan,
    device: &mut dyn Propagator,
    medium: &Medium,
    traces: &[f32],
    found: &Migrated,
    progress: &Progress,
) -> Result<Plain> {
    let points = plan.grid.points();
    let mut store = InMemory::new(points);
    let bar = progress.phase("verify", 2 * plan.schedule.steps);
    let forward = shot::forward(device, medium, plan.schedule, &mut store, None, &bar)?;
    let backward = shot::backward(device, plan.schedule, traces, &mut store, &bar)?;
    let wanted = Migrated::read(device, points)?;
    let wall = report::time(forward.wall + backward.wall);
    progress.done(&bar, &format!("{wall}: both passes again, every state in plain memory"));
    let passes = [forward, backward];
    if options.bits.is_some() {
        let image = image::difference(&found.image, &wanted.image);
        progress.say("compared", &format!("the image is {image:.1e} of itself away"));
        return Ok(Plain { passes, difference: Some(image) });
    }
    for (what, found, wanted) in [
        ("image", &found.image, &wanted.image),
        ("illumination", &found.illumination, &wanted.illumination),
    ] {
        if let Some((ix, iz, a, b)) = image::first_difference(found, wanted, plan.grid.nz) {
            anyhow::bail!(
                "--verify: the {what} differs first at column {ix}, depth {iz}: {a:e} with the \
                 library, {b:e} with plain memory"
            );
        }
    }
    progress.say("verified", "images are bit-identical");
    Ok(Plain { passes, difference: None })
}

/// The configuration can be read, and the folders that files go to are there: better to know before the run.
fn check_paths(options: &Options) -> Result<(), Unfit> {
    if let Some(path) = &options.config {
        let read = std::fs::read(path);
        read.map_err(|error| Unfit(format!("--config {}: {error}", path.display())))?;
    }
    for (option, path) in [
        ("--output", Some(&options.output)),
        ("--json", options.json.as_ref()),
        ("--data", options.data.as_ref()),
    ] {
        let folder = path.and_then(|path| path.parent()).filter(|f| !f.as_os_str().is_empty());
        if let (Some(path), Some(folder)) = (path, folder) {
            if !folder.is_dir() {
                let (path, folder) = (path.display(), folder.display());
                return Err(Unfit(format!("{option} {path}: there is no folder {folder}")));
            }
        }
    }
    Ok(())
}

/// The reflections that the receivers record: the data of the true model without the waves that the
/// smooth model yields as well. Also returns how long modelling each of the two took.
fn record(
    plan: &Plan,
    device: &mut dyn Propagator,
    media: [&Medium; 2],
    smooth: &Model,
    progress: &Progress,
) -> Result<(Vec<f32>, [Duration; 2])> {
    let (steps, receivers) = (plan.schedule.steps, plan.receivers.0.len());
    let mut model = |medium, name, what: &str| -> Result<(Vec<f32>, Duration)> {
        let mut traces = vec![0.0; steps * receivers];
        let bar = progress.phase(name, steps);
        let took = shot::model_data(device, medium, &mut traces, steps, &bar)?;
        progress.done(&bar, &format!("{}: {what}", report::time(took)));
        Ok((traces, took))
    };
    let (mut traces, modelled) = model(media[0], "data", "what the receivers record")?;
    let without = "the waves that met no reflector, taken out of the data";
    let (direct, subtracted) = model(media[1], "direct", without)?;
    shot::keep_reflections(&mut traces, &direct, receivers);

    let from_source = |ix: &usize| plan.source.0.abs_diff(*ix) as f32 * smooth.dx;
    let offsets: Vec<f32> = plan.receivers.0.iter().map(from_source).collect();
    let below = &smooth.velocity[plan.source.0 * smooth.nz..][..smooth.nz];
    let times = (plan.dt, ricker_delay(plan.frequency), 1.5 / plan.frequency);
    shot::mute_wide_angles(&mut traces, &offsets, (below, smooth.dx), times);
    Ok((traces, [modelled, subtracted]))
}

/// Turns the correlation into an image of reflectors, and draws it.
fn show(
    options: &Options,
    plan: &Plan,
    (model, smooth): (&Model, &Model),
    traces: &[f32],
    migration: &Migration,
    caption: &str,
) -> Result<()> {
    let wavelength = model.range().0 / plan.frequency;
    let Migrated { image, illumination } = &migration.result;
    let mut image = image::reflectivity(image, illumination, smooth, 2.0 * wavelength);
    image::fade_unseen(&mut image, model.nz, plan.source.0, &plan.receivers.0);
    let image = image::balanced(&image, (model.nx, model.nz), 2.0 * wavelength / model.dx);
    let frame_step = (migration.frame.version as usize + 1) * plan.schedule.interval;
    let frame_time = frame_step as f32 * plan.dt - ricker_delay(plan.frequency);
    let scene = picture::Scene {
        model,
        smooth,
        wavefront: &migration.frame.values,
        wavefront_time: frame_time.max(0.0),
        traces,
        receivers: &plan.receivers.0,
        dt: plan.dt,
        source: plan.source.0,
        image: &image,
        caption,
    };
    picture::write(&options.output, &scene)
}

fn run(options: &Options) -> Result<()> {
    let progress = Progress { quiet: options.quiet };
    check_paths(options)?;
    let (model, smooth) = models(options)?;
    let plan = options.plan(&model, &smooth)?;
    let (mut device, software) = device(options, &plan)?;
    let device = device.as_mut();
    let name = device.device().to_string();

    let (slow, fast) = model.range();
    let size = format!("{} x {} points of {} m", model.nx, model.nz, report::number(model.dx));
    let shot = format!(
        "{:.1} Hz, {} steps of {:.3} ms, a checkpoint every {}, {} receivers",
        plan.frequency,
        plan.schedule.steps,
        plan.dt * 1e3,
        plan.schedule.interval,
        plan.receivers.0.len()
    );
    progress.say("device", &name);
    if software {
        progress.say("", "Its times are no GPU's performance.");
    }
    progress.say("model", &format!("{size}, {slow:.0} to {fast:.0} m/s"));
    progress.say("shot", &shot);

    let medium = |model: &Model| Medium::new(model, plan.dt, plan.fastest, plan.frequency);
    let smooth_medium = medium(&smooth);
    let media = [&medium(&model), &smooth_medium];
    let (traces, modelling) = record(&plan, device, media, &smooth, &progress)?;
    let migration = migrate(options, &plan, device, &smooth_medium, &traces, &progress)?;
    let plain = options
        .verify
        .then(|| {
            verify(options, &plan, device, &smooth_medium, &traces, &migration.result, &progress)
        })
        .transpose()?;
    let caption = format!("{size}, {shot}");
    show(options, &plan, (&model, &smooth), &traces, &migration, &caption)?;
    progress.say("picture", &options.output.display().to_string());

    if let Some(path) = &options.data {
        let bytes: Vec<u8> =
            migration.result.image.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(path, bytes)
            .with_context(|| format!("--data {}: writing", path.display()))?;
    }

    let figures = Figures {
        device: &name,
        software,
        plan: &plan,
        modelling,
        forward: migration.forward,
        backward: migration.backward,
        bits: options.bits.map(|bits| (bits, options.bound)),
        usage: migration.usage,
        metrics: migration.metrics,
        plain,
    };
    if !options.quiet {
        println!("\n{}", figures.table().trim_end());
    }
    if let Some(path) = &options.json {
        std::fs::write(path, format!("{:#}\n", figures.json()))
            .with_context(|| format!("--json {}: writing", path.display()))?;
    }
    Ok(())
}
