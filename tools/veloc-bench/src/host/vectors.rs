//! `veloc-bench snapshot --parts vectors`: tables 2 and 3 of CRUM with its program, the dot product of two vectors.
//!
//! The vectors are random, or every second element is the same number. They are saved as a program without the library
//! does that waits for its checkpoints: written and forced to the storage, as they are or through a program that
//! compresses; and by the library, which compresses after the call.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use os::mapping::Mapping;
use tempfile::TempDir;

use super::engine::job::{BenchJob, NAME};
use super::engine::median;
use super::snapshot::{seconds, tell};
use super::Goal;

/// Programs that compress their input, with the fastest of their levels.
const PROGRAMS: [(&str, &str); 3] = [("gzip", "-1"), ("pigz", "-1"), ("lz4", "-1")];

/// The library's ways: `host_capture` and `compress`.
const WAYS: [(&str, &str); 6] = [
    ("copy", "none"),
    ("protect", "none"),
    ("fork", "none"),
    ("protect", "lz4"),
    ("fork", "lz4"),
    ("protect", "zstd:1"),
];

/// Two vectors, one behind the other.
struct Vectors(Mapping);

impl Vectors {
    /// `share` of the elements are random, the others all the same.
    fn new(bytes: usize, share: f64) -> Result<Vectors> {
        let mut vectors = Vectors(Mapping::reserve(bytes)?);
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut due = 0.0;
        for element in vectors.elements_mut() {
            due += share;
            let is_random = due >= 1.0;
            due -= if is_random { 1.0 } else { 0.0 };
            *element = if is_random { random() } else { 0.25 };
        }
        Ok(vectors)
    }

    fn elements_mut(&mut self) -> &mut [f64] {
        let (base, count) = (self.0.base().as_ptr().cast(), self.0.len() / size_of::<f64>());
        // SAFETY: all of the mapping, aligned for numbers and borrowed alone; any bytes are numbers.
        unsafe { std::slice::from_raw_parts_mut(base, count) }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: all of the mapping, which nobody writes to meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.base().as_ptr(), self.0.len()) }
    }

    /// The application: their dot product.
    fn product(&mut self) -> f64 {
        let elements = self.elements_mut();
        let (one, other) = elements.split_at(elements.len() / 2);
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    fn save(&self, path: &Path) -> Result<()> {
        let file = File::create(path)?;
        file.write_all_at(self.bytes(), 0)?;
        file.sync_all().context("forcing a file to the storage")
    }

    fn save_through(&self, (program, level): (&str, &str), path: &Path) -> Result<()> {
        let file = File::create(path)?;
        let mut running = Command::new(program)
            .args([level, "-c"])
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        if let Some(mut input) = running.stdin.take() {
            input.write_all(self.bytes())?;
        }
        ensure!(running.wait()?.success(), "{program} has failed");
        file.sync_all().context("forcing a file to the storage")
    }
}

pub(super) fn measure(bytes: usize, repeats: u32) -> Result<()> {
    for (share, said) in [(1.0, "random"), (0.5, "half of it random")] {
        let mut vectors = Vectors::new(bytes, share)?;
        let what = format!("{}, {said}", os::size::show(bytes as u64));
        of_vectors(&mut vectors, &what, repeats)?;
    }
    Ok(())
}

fn of_vectors(vectors: &mut Vectors, what: &str, repeats: u32) -> Result<()> {
    let len = vectors.0.len() as f64;
    let folder = TempDir::new()?;
    let path = folder.path().join("saved");
    let tell_ratio = |what: &str, of: &str, unit: &str, values: &[f64], by: f64, goal| {
        tell(what, of, unit, values.iter().map(|value| value / by).collect(), goal)
    };
    let each = |work: &mut dyn FnMut() -> Result<()>| -> Result<Vec<f64>> {
        (0..repeats).map(|_| seconds(&mut *work)).collect()
    };
    let naive = each(&mut || vectors.save(&path))?;
    tell_ratio("written and forced", what, "ms", &naive, 1e-3, None)?;
    let naive = median(naive);
    for program in PROGRAMS {
        let called = format!("{} {}", program.0, program.1);
        if !is_there(program.0) {
            eprintln!("{} is not installed, and was not measured", program.0);
            continue;
        }
        let times = each(&mut || vectors.save_through(program, &path))?;
        tell_ratio(&format!("{called}: blocked"), what, "x written", &times, naive, None)?;
        let size = fs::metadata(&path)?.len() as f64;
        tell_ratio(&format!("{called}: file"), what, "x bytes", &[size], len, None)?;
    }
    fs::remove_file(&path)?;
    let product = |vectors: &mut Vectors| {
        seconds(|| {
            std::hint::black_box(vectors.product());
            Ok(())
        })
    };
    product(vectors)?;
    let quiet = median((0..repeats.max(3)).map(|_| product(vectors)).collect::<Result<_>>()?);
    for (capture, compress) in WAYS {
        let way = format!("{capture}, compress = {compress}");
        let job = BenchJob::start_in(
            folder.path(),
            &format!(
                "mode = async\nscratch = DIR/scratch\nmax_versions = 2\nhost_cache_size = {}B\n\
                 host_capture = {capture}\ncompress = {compress}\n",
                3 * vectors.0.len() + (64 << 20)
            ),
        )?;
        // SAFETY: the vectors outlive the job, and nobody has a reference to them during its calls.
        unsafe { job.protect(0, vectors.0.base().as_ptr().cast(), vectors.0.len())? };
        let (mut blocked, mut written, mut meanwhile, mut between) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Two versions in turns: pages of the host buffer exist from the third on.
        for round in 0..repeats as i32 + 3 {
            let mut call = 0.0;
            let mut beside = 0.0;
            let all = seconds(|| {
                call = seconds(|| job.checkpoint(NAME, round % 2))?;
                beside = product(vectors)?;
                job.drain()
            })?;
            let after = product(vectors)?;
            if round > 2 {
                blocked.push(call);
                written.push(all);
                meanwhile.push(beside);
                between.push(after);
            }
        }
        let goal = (capture != "copy").then_some(Goal::AtMost(0.025));
        tell_ratio(&format!("{way}: blocked"), what, "x written", &blocked, naive, goal)?;
        tell_ratio(&format!("{way}: until in the file"), what, "x written", &written, naive, None)?;
        tell_ratio(&format!("{way}: product meanwhile"), what, "x quiet", &meanwhile, quiet, None)?;
        let goal = Some(Goal::AtMost(1.01));
        tell_ratio(&format!("{way}: product between"), what, "x quiet", &between, quiet, goal)?;
        let size = fs::metadata(folder.path().join("scratch/bench-0-1.dat"))?.len() as f64;
        tell_ratio(&format!("{way}: file"), what, "x bytes", &[size], len, None)?;
        drop(job);
        fs::remove_dir_all(folder.path().join("scratch"))?;
    }
    Ok(())
}

/// Whether a program is on the path.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
