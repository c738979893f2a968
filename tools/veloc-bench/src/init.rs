//! `veloc-bench init`: how fast caches become usable, and nothing else (figure 4a). Each process
//! makes one cache, all start together, and none frees its cache before all have theirs.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{ensure, Result};
use clap::{Args, ValueEnum};
use device::DeviceRange;
use levels::host_buffer::{HostBuffer, TouchMethod};
use os::interrupt;
use os::size;
use os::{affinity, memory};

use super::child::{ready, say, wait, Child};
use super::cuda::{register, unregister, BenchDevice, CudaBuffer, Pinned};
use super::host::number;
use super::host::pages::touch_all;
use super::options::{distinct, name_of};
use super::results::{prepare, Initialisation, Results, Spread, SCHEMA, SOFTWARE_WARNING};
use super::{machine, output, processes};

/// Bytes of one step of touching and registering: what the library registers at a time.
const HOST_STEP: u64 = 64 << 20;

/// Default sizes of a step of mapping.
const STEPS: [u64; 4] = [2 << 20, 64 << 20, 128 << 20, 1 << 30];

/// The part of the available memory that may be asked for, in tenths.
const MOST_TENTHS: u64 = 8;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct InitOptions {
    /// Numbers of processes
    #[arg(long, value_delimiter = ',', default_value = "1,2,4",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: Vec<u32>,
    /// Device memory of each process
    #[arg(long, value_parser = size::parse, default_value = "1G")]
    device_bytes: u64,
    /// Host memory of each process
    #[arg(long, value_parser = size::parse, default_value = "4G")]
    host_bytes: u64,
    /// Steps in which device memory is mapped [default: 2M,64M,128M,1G, as far as --device-bytes
    /// has room for one]
    #[arg(long, value_delimiter = ',', value_parser = size::parse)]
    steps: Vec<u64>,
    /// How often each is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// The file of results
    #[arg(long, value_name = "FILE", default_value = "out/init.json")]
    out: PathBuf,
    /// Be a process that makes this cache
    #[arg(long, hide = true)]
    member: Option<CacheMethod>,
}

/// A way to make a cache usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CacheMethod {
    Alloc,
    Map,
    Touch,
    TouchAndPin,
    PinAtOnce,
}

impl CacheMethod {
    /// The name of the way in results.
    fn text(self) -> &'static str {
        match self {
            CacheMethod::Alloc => Initialisation::ALLOCATED,
            CacheMethod::Map => "device: mapped in chunks",
            CacheMethod::Touch => "host: touched",
            CacheMethod::TouchAndPin => "host: pinned after touching",
            CacheMethod::PinAtOnce => "host: allocated and pinned at once",
        }
    }

    fn is_of_device(self) -> bool {
        matches!(self, CacheMethod::Alloc | CacheMethod::Map)
    }
}

pub(super) fn run(options: &InitOptions) -> Result<()> {
    if let Some(kind) = options.member {
        return member(kind, options);
    }
    let points = plan(options)?;
    prepare(&options.out)?;
    interrupt::watch()?;
    let device = processes::device()?;
    let mut results = Results {
        schema: SCHEMA,
        title: "initialisation of caches".to_owned(),
        program: machine::program(),
        machine: machine::machine(),
        warning: device.software.then(|| SOFTWARE_WARNING.to_owned()),
        device: Some(device),
        measurements: Vec::new(),
        floors: Vec::new(),
        left_out: Vec::new(),
        initialisation: points.iter().map(|(_, empty)| empty.clone()).collect(),
    };
    if let Some(warning) = &results.warning {
        println!("{warning}");
    }
    let bar = output::steps_bar("measuring", u64::from(options.repeats) * points.len() as u64);
    for _ in 0..options.repeats {
        for (index, (kind, point)) in points.iter().enumerate() {
            let seconds = together(*kind, point)?;
            results.initialisation[index].seconds.push(seconds);
            results.write(&options.out)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(&results);
    Ok(())
}

/// The points to measure, without figures yet.
fn plan(options: &InitOptions) -> Result<Vec<(CacheMethod, Initialisation)>> {
    let most = options.processes.iter().copied().max().unwrap_or(1);
    let available = memory::physical()?.available;
    let all = options.host_bytes.saturating_mul(u64::from(most));
    ensure!(options.device_bytes > 0, "--device-bytes 0: a cache without a byte");
    ensure!(options.host_bytes > 0, "--host-bytes 0: a cache without a byte");
    distinct("--processes", &options.processes)?;
    distinct("--steps", &options.steps)?;
    let steps = match &options.steps[..] {
        [] => STEPS.into_iter().filter(|step| *step <= options.device_bytes).collect(),
        given => given.to_vec(),
    };
    for step in &steps {
        ensure!(*step > 0, "--steps 0: nothing is mapped");
        ensure!(
            *step <= options.device_bytes,
            "--steps {}: more than --device-bytes {}",
            size::show(*step),
            size::show(options.device_bytes)
        );
    }
    ensure!(
        all / MOST_TENTHS <= available / 10,
        "--host-bytes {} for {most} processes: only {} of memory are available",
        size::show(options.host_bytes),
        size::show(available)
    );
    let mut points = Vec::new();
    for &processes in &options.processes {
        let mut add = |kind: CacheMethod, step| {
            let bytes = if kind.is_of_device() { options.device_bytes } else { options.host_bytes };
            let what = kind.text().to_owned();
            points
                .push((kind, Initialisation { what, processes, bytes, step, seconds: Vec::new() }));
        };
        add(CacheMethod::Alloc, 0);
        steps.iter().for_each(|step| add(CacheMethod::Map, *step));
        add(CacheMethod::Touch, 0);
        add(CacheMethod::TouchAndPin, HOST_STEP);
        add(CacheMethod::PinAtOnce, 0);
    }
    Ok(points)
}

/// Measures a point once, in several processes at once. Returns the time of each process.
fn together(kind: CacheMethod, point: &Initialisation) -> Result<Vec<f64>> {
    let arguments = [
        "init".to_owned(),
        format!("--member={}", name_of(&kind)),
        format!("--device-bytes={}", point.bytes),
        format!("--host-bytes={}", point.bytes),
        format!("--steps={}", point.step),
    ];
    let mut members =
        (0..point.processes).map(|_| Child::start(&arguments)).collect::<Result<Vec<_>>>()?;
    members.iter_mut().try_for_each(Child::go)?;
    let times = members
        .iter_mut()
        .map(|member| Ok(member.line()?.parse()?))
        .collect::<Result<Vec<f64>>>()?;
    members.iter_mut().try_for_each(Child::go)?;
    // Each process frees its memory before the next point is measured.
    members.iter_mut().try_for_each(|member| member.line().map(drop))?;
    Ok(times)
}

/// In a process: makes the cache, says how long that took, and keeps the cache until all have
/// theirs.
fn member(kind: CacheMethod, options: &InitOptions) -> Result<()> {
    let device = BenchDevice::open(0)?;
    let step = options.steps.first().copied().unwrap_or(0);
    let (all, free) = (options.device_bytes, device.free_memory()?);
    ensure!(
        !kind.is_of_device() || all <= free,
        "--device-bytes {}: the device has {} left",
        size::show(all),
        size::show(free)
    );
    // The driver's work at its first call of a kind is not counted.
    drop(CudaBuffer::new(&device, 4096)?);
    drop(Pinned::new(&device, 4096)?);
    ready()?;
    match kind {
        CacheMethod::Alloc => keep(|| CudaBuffer::new(&device, all)),
        CacheMethod::Map => keep(|| {
            let mut range = DeviceRange::reserve(&device, all)?;
            while range.map_next(step)? > 0 {}
            Ok(range)
        }),
        CacheMethod::Touch => keep(|| touched(options.host_bytes)),
        CacheMethod::TouchAndPin => keep(|| RegisteredBuffer::new(touched(options.host_bytes)?)),
        CacheMethod::PinAtOnce => keep(|| Pinned::new(&device, options.host_bytes)),
    }
}

fn keep<T>(make: impl FnOnce() -> Result<T>) -> Result<()> {
    let since = Instant::now();
    let made = make()?;
    say(&since.elapsed().as_secs_f64().to_string())?;
    wait()?;
    drop(made);
    say("done")
}

/// A host buffer whose pages exist, made in the library's way and by as many threads.
fn touched(bytes: u64) -> Result<HostBuffer> {
    let buffer = HostBuffer::reserve(bytes, HOST_STEP, true)?;
    let method = TouchMethod::here();
    let threads = policy::touch::threads(0, affinity::usable_cpus()) as u32;
    touch_all(&buffer, threads, |unit| buffer.touch(unit, method))?;
    Ok(buffer)
}

/// A host buffer that is registered, piece by piece.
struct RegisteredBuffer {
    buffer: HostBuffer,
    starts: Vec<u64>,
}

impl RegisteredBuffer {
    fn new(buffer: HostBuffer) -> Result<RegisteredBuffer> {
        let mut registered = RegisteredBuffer { buffer, starts: Vec::new() };
        let len = registered.buffer.len();
        for start in (0..len).step_by(HOST_STEP as usize) {
            let bytes = HOST_STEP.min(len - start);
            // SAFETY: the buffer lives until `drop` has unregistered it, and nothing copies.
            unsafe { register(registered.buffer.address(start), bytes)? };
            registered.starts.push(start);
        }
        Ok(registered)
    }
}

impl Drop for RegisteredBuffer {
    fn drop(&mut self) {
        for start in &self.starts {
            // SAFETY: registered in `new`, and nothing copies.
            if let Err(error) = unsafe { unregister(self.buffer.address(*start)) } {
                eprintln!("{error:#}");
            }
        }
    }
}

fn print(results: &Results) {
    println!(
        "{:<36} {:>9} {:>10} {:>10} {:>12} {:>20}",
        "", "processes", "of each", "step", "GB/s of each", "least .. greatest"
    );
    for point in &results.initialisation {
        let rate = |repeat: &Vec<f64>| {
            let mean = repeat.iter().sum::<f64>() / repeat.len() as f64;
            point.bytes as f64 / mean / 1e9
        };
        let Some(spread) = Spread::of(point.seconds.iter().map(rate).collect()) else {
            continue;
        };
        println!(
            "{:<36} {:>9} {:>10} {:>10} {:>12} {:>20}",
            point.what,
            point.processes,
            size::show(point.bytes),
            if point.step > 0 { size::show(point.step) } else { "-".to_owned() },
            number(spread.median),
            format!("{} .. {}", number(spread.least), number(spread.greatest))
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: InitOptions,
    }

    fn planned(arguments: &str) -> Result<Vec<(CacheMethod, Initialisation)>> {
        let words = std::iter::once("init").chain(arguments.split_whitespace());
        plan(&Command::try_parse_from(words)?.options)
    }

    #[test]
    fn every_step_that_was_asked_for_is_measured_once_or_refused() {
        let small = "--host-bytes 8M --processes 1";
        let steps = |arguments: &str| {
            let points = planned(&format!("{small} {arguments}")).unwrap();
            let mapped = points.iter().filter(|(kind, _)| *kind == CacheMethod::Map);
            mapped.map(|(_, point)| point.step >> 20).collect::<Vec<_>>()
        };
        assert_eq!(steps("--device-bytes 64M"), [2, 64]);
        assert_eq!(steps("--device-bytes 64M --steps 4M"), [4]);
        for (arguments, named) in [
            ("--steps 0", "--steps 0"),
            ("--device-bytes 64M --steps 2M,128M", "--steps 128 MiB: more than --device-bytes"),
            ("--steps 2M,2M", "--steps"),
            ("--processes 1,1", "--processes: 1 is there twice"),
            ("--processes 1 --host-bytes 0", "--host-bytes 0"),
        ] {
            let error = planned(arguments).unwrap_err().to_string();
            assert!(error.contains(named), "{arguments}: {error}");
        }
    }
}
