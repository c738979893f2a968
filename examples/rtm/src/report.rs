//! The figures of a run: the closing table, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use console::style;
use serde_json::{json, Value};
use veloc_client::capi::{VELOC_Metrics, VELOC_Sum};

use crate::options::Plan;
use crate::shot::Times;
use crate::store::{Calls, Usage};

/// Columns of the table; it fits a plain terminal.
const WIDTH: usize = 78;

/// The ways between the places where a checkpoint can be, in the order of `VELOC_Metrics::hops`:
/// the library's name of each, and a name for readers.
const HOPS: [(&str, &str); 13] = [
    ("AtoD", "application to GPU cache"),
    ("AtoH", "application to host cache"),
    ("AtoF", "application to scratch file"),
    ("DtoH", "GPU cache to host cache"),
    ("DtoF", "GPU cache to scratch file"),
    ("HtoF", "host cache to scratch file"),
    ("FtoP", "scratch to persistent file"),
    ("PtoF", "persistent to scratch file"),
    ("FtoH", "scratch file to host cache"),
    ("HtoD", "host cache to GPU cache"),
    ("DtoA", "GPU cache to application"),
    ("HtoA", "host cache to application"),
    ("FtoA", "scratch file to application"),
];

/// Why the application waited, in the order of `VELOC_Metrics::blocked`: a short name, and a name
/// for readers.
const CAUSES: [(&str, &str); 8] = [
    ("copy", "its own copy"),
    ("order", "work it had queued before"),
    ("device_map", "GPU cache being mapped"),
    ("device_space", "room in the GPU cache"),
    ("host_space", "room in the host cache"),
    ("fetch", "bytes on their way up"),
    ("file", "files"),
    ("drain", "draining it asked for"),
];

/// All figures of a run.
pub(crate) struct Figures<'a> {
    /// The name of the device that computed.
    pub device: &'a str,
    /// Whether the device was the software device.
    pub software: bool,
    /// The run that was computed.
    pub plan: &'a Plan,
    /// Modelling the data, and modelling the waves to take out of them.
    pub modelling: [Duration; 2],
    pub forward: Times,
    pub backward: Times,
    /// The bits of a value that the library has kept, and the bound, if not all.
    pub bits: Option<(u8, f64)>,
    /// The calls of the library.
    pub usage: Usage,
    /// The library's own metrics.
    pub metrics: VELOC_Metrics,
    /// The run with every state in plain memory.
    pub plain: Option<Plain>,
}

/// A run with every state in plain memory.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// Its forward and backward pass.
    pub passes: [Times; 2],
    /// How far the image is from this run's, if it is not the same.
    pub difference: Option<f64>,
}

impl Figures<'_> {
    /// Time of both passes of the migration without the store.
    fn compute(&self) -> Duration {
        self.forward.compute() + self.backward.compute()
    }

    /// A time in percent of computing.
    fn of_compute(&self, time: Duration) -> f64 {
        100.0 * time.as_secs_f64() / self.compute().as_secs_f64().max(1e-9)
    }

    /// Waiting in percent of computing.
    fn overhead(&self) -> f64 {
        self.of_compute(self.usage.waited())
    }

    /// The closing table.
    pub(crate) fn table(&self) -> String {
        let mut out = Table::default();
        let u = &self.usage;
        let packs = u.pack.count > 0;
        let columns = ["wall", "computing", "storing", "compressing"];
        out.head("Phase", &columns[..if packs { 4 } else { 3 }]);
        // Compressing is listed apart from storing.
        let mut pass = |name: &str, t: Times, packed: Duration| {
            let row = [t.wall, t.compute(), t.stored.saturating_sub(packed), packed];
            let row = row.map(|took| if took.is_zero() { String::new() } else { time(took) });
            out.row(name, &row[..if packs { 4 } else { 3 }]);
        };
        for (name, took) in ["model the data", "model the direct waves"].iter().zip(self.modelling)
        {
            pass(name, Times { wall: took, stored: Duration::ZERO }, Duration::ZERO);
        }
        let plain = self.plain.map_or([None; 2], |plain| plain.passes.map(Some));
        for (name, t, packed, plain) in [
            ("forward pass", self.forward, u.pack.total, plain[0]),
            ("backward pass", self.backward, u.unpack.total, plain[1]),
        ] {
            pass(name, t, packed);
            if let Some(plain) = plain {
                pass("  states in plain memory", plain, Duration::ZERO);
            }
        }

        out.head("In the library", &["calls", "total", "mean", "longest"]);
        for (name, calls) in [
            ("VELOC_Mem_protect", u.protect),
            ("VELOC_Checkpoint", u.checkpoint),
            ("VELOC_Prefetch_enqueue", u.prefetch),
            ("VELOC_Restart", u.restart),
        ] {
            out.row(name, &timing(&calls));
        }
        if packs {
            out.head("Compression, by rtm itself", &["calls", "total", "mean", "longest"]);
            out.row("compress", &timing(&u.pack));
            out.row("decompress", &timing(&u.unpack));
            let (least, most) = u.sizes;
            let ratio = u.raw_bytes as f64 / u.kept_bytes.max(1) as f64;
            let sizes = format!(
                "{} became {}, {ratio:.1} times less",
                bytes(u.raw_bytes),
                bytes(u.kept_bytes)
            );
            out.line(&sizes, &format!("each {} to {}", bytes(least as u64), bytes(most as u64)));
        }

        out.head("Waited in the library for", &["times", "total", "of compute"]);
        let causes = CAUSES.iter().zip(&self.metrics.blocked);
        for ((_, name), sum) in causes.filter(|(_, sum)| sum.count > 0) {
            let total = Duration::from_nanos(sum.nanoseconds);
            let share = self.of_compute(total);
            out.row(name, &[sum.count.to_string(), time(total), format!("{share:.2} %")]);
        }

        out.head("Bytes moved", &["hop", "in all", "each", "rate"]);
        for ((short, long), sum) in
            HOPS.iter().zip(&self.metrics.hops).filter(|(_, sum)| sum.bytes > 0)
        {
            let each = bytes(sum.bytes / sum.count.max(1));
            out.row(long, &[(*short).to_string(), bytes(sum.bytes), each, rate(sum)]);
        }

        out.rule();
        let (waited, compute) = (time(self.usage.waited()), time(self.compute()));
        out.line(
            &format!("Overhead: {waited} in the library over {compute} of computing"),
            &format!("{:.2} %", self.overhead()),
        );
        if packs {
            let both = u.waited() + u.pack.total + u.unpack.total;
            let share = self.of_compute(both);
            out.line("The same with compression", &format!("{share:.2} %"));
        }
        if let Some(Plain { passes: [forward, backward], .. }) = self.plain {
            // The library's threads, and the pages that they make, take processors and memory from
            // the computation.
            for (name, with, without) in
                [("forward", self.forward, forward), ("backward", self.backward, backward)]
            {
                let (with, without) = (with.compute(), without.compute());
                let times = with.as_secs_f64() / without.as_secs_f64().max(1e-9);
                let (with, without) = (time(with), time(without));
                out.line(
                    &format!("Computing {name}: {with}, and {without} with states in plain memory"),
                    &format!("{times:.2} x"),
                );
            }
        }
        if self.software {
            out.note("Computed on the software device, which is not a GPU: these times say");
            out.note("nothing about a GPU's performance.");
        }
        out.text
    }

    /// The figures of the run as JSON. Times are in seconds, sizes in bytes.
    pub(crate) fn json(&self) -> Value {
        let plan = self.plan;
        let pass = |t: Times| {
            json!({
                "wall_s": t.wall.as_secs_f64(),
                "compute_s": t.compute().as_secs_f64(),
                "store_s": t.stored.as_secs_f64(),
            })
        };
        let calls = |c: Calls| {
            json!({
                "count": c.count,
                "total_s": c.total.as_secs_f64(),
                "longest_s": c.longest.as_secs_f64(),
            })
        };
        let sums = |names: &mut dyn Iterator<Item = &'static str>, sums: &[VELOC_Sum]| {
            let figures = sums.iter().map(|sum| {
                json!({
                    "bytes": sum.bytes,
                    "total_s": sum.nanoseconds as f64 * 1e-9,
                    "count": sum.count,
                })
            });
            names.map(String::from).zip(figures).collect::<serde_json::Map<_, _>>()
        };
        let hops = sums(&mut HOPS.iter().map(|(name, _)| *name), &self.metrics.hops);
        let blocked = sums(&mut CAUSES.iter().map(|(name, _)| *name), &self.metrics.blocked);
        json!({
            "device": self.device,
            "software_device": self.software,
            "nx": plan.grid.nx,
            "nz": plan.grid.nz,
            "dt_s": plan.dt,
            "frequency_hz": plan.frequency,
            "steps": plan.schedule.steps,
            "interval_steps": plan.schedule.interval,
            "checkpoints": plan.schedule.checkpoints(),
            "state_bytes": plan.grid.points() * size_of::<f32>(),
            "kept_bytes": self.usage.kept_bytes,
            "model_data_s": self.modelling[0].as_secs_f64(),
            "model_direct_s": self.modelling[1].as_secs_f64(),
            "forward": pass(self.forward),
            "backward": pass(self.backward),
            "bits": self.bits.map(|(bits, _)| bits),
            "bound": self.bits.map(|(_, bound)| bound),
            "compressed_bytes": self.metrics.compressed_bytes,
            "compressed_states": self.metrics.compress.count,
            "uncompressed_states": self.metrics.uncompressed,
            "plain_forward": self.plain.map(|plain| pass(plain.passes[0])),
            "plain_backward": self.plain.map(|plain| pass(plain.passes[1])),
            "image_difference": self.plain.and_then(|plain| plain.difference),
            "protect": calls(self.usage.protect),
            "checkpoint": calls(self.usage.checkpoint),
            "prefetch": calls(self.usage.prefetch),
            "restart": calls(self.usage.restart),
            "compress": calls(self.usage.pack),
            "decompress": calls(self.usage.unpack),
            "hops": hops,
            "blocked": blocked,
            "overhead_percent": self.overhead(),
            "verified": self.plain.map(|plain| plain.difference.is_none()),
        })
    }
}

/// Count, total, mean and longest of a function's calls.
fn timing(calls: &Calls) -> [String; 4] {
    let mean = calls.total.checked_div(calls.count.max(1) as u32).unwrap_or_default();
    [calls.count.to_string(), time(calls.total), time(mean), time(calls.longest)]
}

/// A table that grows line by line.
#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    /// A section's head: its name and the names of its columns.
    fn head(&mut self, name: &str, columns: &[&str]) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let line = arranged(name, &columns);
        let _ = writeln!(self.text, "{}", style(line).bold());
        self.rule();
    }

    fn rule(&mut self) {
        let _ = writeln!(self.text, "{}", style("─".repeat(WIDTH)).dim());
    }

    fn row(&mut self, name: &str, columns: &[String]) {
        let _ = writeln!(self.text, "{}", arranged(name, columns).trim_end());
    }

    /// A sentence on the left and a figure on the right.
    fn line(&mut self, left: &str, right: &str) {
        let room = WIDTH.saturating_sub(left.chars().count());
        let _ = writeln!(self.text, "{left}{right:>room$}");
    }

    fn note(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", style(text).yellow());
    }
}

/// A line of the table, its columns to the right.
fn arranged(name: &str, columns: &[String]) -> String {
    let columns: String = columns.iter().map(|column| format!("{column:>12}")).collect();
    let room = WIDTH.saturating_sub(columns.chars().count());
    // A last column that is wider than the others pushes the text to the left, not over the edge.
    format!("{name:<room$}{columns}")
}

/// A duration with three digits and its unit.
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A number of four digits, as people write it: 3900, not 3899.9998. Never more than the value,
/// which may be a limit.
pub(crate) fn number(value: f32) -> String {
    if !value.is_normal() {
        return value.to_string();
    }
    let value = f64::from(value);
    let decimals = (3 - value.abs().log10().floor() as i32).clamp(0, 12);
    let scale = 10f64.powi(decimals);
    // Rounded down, except for what is lost in 32 bits.
    let text = format!("{:.*}", decimals as usize, (value * scale * (1.0 + 1e-6)).floor() / scale);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The rate at which bytes moved.
fn rate(sum: &VELOC_Sum) -> String {
    if sum.nanoseconds == 0 {
        return String::new();
    }
    // Bytes per nanosecond are gigabytes per second.
    format!("{:.2} GB/s", sum.bytes as f64 / sum.nanoseconds as f64)
}

/// A size with its unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shot::Schedule;
    use crate::wave::Grid;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes(512), "0.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(time(Duration::from_micros(1500)), "1.50 ms");
        assert_eq!(time(Duration::from_nanos(2500)), "2.5 µs");
        assert_eq!(time(Duration::from_secs(75)), "75.00 s");
    }

    /// Catches a limit that is refused when it is typed as it was printed.
    #[test]
    fn numbers_are_as_people_write_them() {
        for (value, text) in [
            (3899.9998, "3900"),
            (0.001_794_87, "0.001794"),
            (20.0 / 3.0, "6.666"),
            (12.5, "12.5"),
            (74.07407, "74.07"),
            (0.0, "0"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    fn figures(plan: &Plan) -> Figures<'_> {
        let times = |wall, stored| Times {
            wall: Duration::from_millis(wall),
            stored: Duration::from_millis(stored),
        };
        let calls =
            |ms| Calls { count: 100, total: Duration::from_millis(ms), longest: Duration::ZERO };
        let sum = VELOC_Sum { bytes: 1 << 40, nanoseconds: 99_999_000_000, count: 1_000_000 };
        Figures {
            device: "software device",
            software: true,
            plan,
            modelling: [Duration::from_secs(1); 2],
            forward: times(1050, 50),
            backward: times(1050, 50),
            bits: None,
            usage: Usage {
                checkpoint: calls(40),
                restart: calls(20),
                pack: calls(10),
                raw_bytes: 1 << 40,
                kept_bytes: 1 << 38,
                sizes: (1 << 20, 1 << 33),
                ..Usage::default()
            },
            metrics: VELOC_Metrics { hops: [sum; 13], blocked: [sum; 8], ..Default::default() },
            plain: Some(Plain { passes: [times(530, 30), times(1010, 10)], difference: None }),
        }
    }

    /// Catches compression that counts as the library's, and a computation that the library slows
    /// down unnoticed.
    #[test]
    fn the_table_fits_80_columns_and_tells_overhead_and_software() {
        let plan = Plan {
            grid: Grid { nx: 10, nz: 10 },
            dt: 0.001,
            frequency: 20.0,
            fastest: 3000.0,
            schedule: Schedule { steps: 1000, interval: 10 },
            source: (5, 2),
            receivers: (vec![5], 2),
        };
        let figures = figures(&plan);
        let table = figures.table();
        for line in table.lines() {
            let line = console::strip_ansi_codes(line);
            assert!(line.chars().count() < 80, "{} columns: {line}", line.chars().count());
        }
        // 60 ms of 2 s in the library, and 10 ms for compressing beside them.
        assert!(table.contains("3.00 %") && table.contains("3.50 %"), "{table}");
        let plain = console::strip_ansi_codes(&table);
        let forward = plain.lines().find(|line| line.starts_with("forward pass")).unwrap();
        let columns: Vec<&str> = forward.split_whitespace().skip(2).step_by(2).collect();
        assert_eq!(columns, ["1.05", "1.00", "40.00", "10.00"], "{table}");
        // Twice as long as with the states in plain memory.
        assert!(plain.contains("2.00 x") && plain.contains("1.00 x"), "{table}");
        assert_eq!(figures.json()["plain_forward"]["wall_s"], 0.53);
        assert!(table.contains("not a GPU"));
        assert_eq!(figures.json()["checkpoint"]["count"], 100);
        assert_eq!(figures.json()["checkpoints"], 100);
        assert_eq!(figures.json()["hops"]["DtoH"]["bytes"], 1u64 << 40);
        assert_eq!(figures.json()["blocked"]["device_space"]["count"], 1_000_000);
    }
}
