//! The figures of a run: the closing table, and the same as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use console::style;
use serde_json::{json, Value};

use crate::options::Plan;
use crate::shot::Times;
use crate::store::{Calls, Usage};

/// Columns of the table; it fits a plain terminal.
const WIDTH: usize = 78;

/// The ways between the places where a checkpoint can be: the library's name of each, and the
/// reader's.
const HOPS: [(&str, &str); 10] = [
    ("AtoD", "application to GPU cache"),
    ("AtoH", "application to host cache"),
    ("DtoH", "GPU cache to host cache"),
    ("HtoF", "host cache to scratch file"),
    ("FtoP", "scratch file to persistent file"),
    ("PtoF", "persistent file to scratch file"),
    ("FtoH", "scratch file to host cache"),
    ("HtoD", "host cache to GPU cache"),
    ("HtoA", "host cache to application"),
    ("DtoA", "GPU cache to application"),
];

/// Bytes moved per hop, in the order of [`HOPS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hops([u64; HOPS.len()]);

impl Hops {
    /// Reads the text of `VELOC_Get_trf_metrics`: each hop's name with the number after it,
    /// whatever stands between. A hop that is not named moved nothing.
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|w| !w.is_empty())
            .collect();
        let mut hops = Hops::default();
        for (bytes, (name, _)) in hops.0.iter_mut().zip(HOPS) {
            let at = words
                .iter()
                .position(|word| word.eq_ignore_ascii_case(name));
            let number = at.and_then(|at| words[at + 1..].iter().find_map(|w| w.parse().ok()));
            *bytes = number.unwrap_or(0);
        }
        hops
    }
}

/// Why the application waited in the library, as the library counts it.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    /// What it waited for.
    pub cause: &'static str,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total: Duration,
}

/// All figures of a run.
pub struct Figures<'a> {
    /// What computed.
    pub device: &'a str,
    /// Whether that was the software device.
    pub software: bool,
    /// What was computed.
    pub plan: &'a Plan,
    /// Modelling the data, and the waves to take out of them.
    pub modelling: [Duration; 2],
    /// The forward pass.
    pub forward: Times,
    /// The backward pass.
    pub backward: Times,
    /// The calls of the library.
    pub usage: Usage,
    /// Bytes moved.
    pub hops: Hops,
    /// Waiting by cause, where the library tells.
    pub blocked: Vec<Blocked>,
    /// Whether the image was compared with that of a run in plain memory.
    pub verified: Option<bool>,
}

impl Figures<'_> {
    /// Time of both passes of the migration without the store.
    fn compute(&self) -> Duration {
        self.forward.compute() + self.backward.compute()
    }

    /// Time inside the library during both passes.
    fn waited(&self) -> Duration {
        self.usage.checkpoint.total + self.usage.restart.total
    }

    /// Waiting in percent of computing.
    fn overhead(&self) -> f64 {
        100.0 * self.waited().as_secs_f64() / self.compute().as_secs_f64().max(1e-9)
    }

    /// The closing table.
    pub fn table(&self) -> String {
        let mut out = Table::default();
        out.head("Phase", &["wall", "computing", "storing"]);
        for (name, took) in ["model the data", "model the direct waves"]
            .iter()
            .zip(self.modelling)
        {
            out.row(name, &[time(took), time(took), String::new()]);
        }
        for (name, t) in [
            ("forward pass", self.forward),
            ("backward pass", self.backward),
        ] {
            out.row(name, &[time(t.wall), time(t.compute()), time(t.stored)]);
        }

        out.head("In the library", &["calls", "total", "mean", "longest"]);
        let u = &self.usage;
        for (name, calls) in [
            ("VELOC_Checkpoint", u.checkpoint),
            ("VELOC_Restart", u.restart),
        ] {
            out.row(name, &timing(&calls));
        }
        if u.pack.count > 0 {
            out.head("Compression", &["calls", "total", "mean", "longest"]);
            out.row("compress", &timing(&u.pack));
            out.row("decompress", &timing(&u.unpack));
            let (least, most) = u.sizes;
            let ratio = u.raw_bytes as f64 / u.kept_bytes.max(1) as f64;
            let sizes = format!(
                "{} became {}, {ratio:.1} times less",
                bytes(u.raw_bytes),
                bytes(u.kept_bytes)
            );
            out.line(
                &sizes,
                &format!("each {} to {}", bytes(least as u64), bytes(most as u64)),
            );
        }

        if !self.blocked.is_empty() {
            out.head("Blocked, by cause", &["times", "total", "of computing"]);
            for b in &self.blocked {
                let share = 100.0 * b.total.as_secs_f64() / self.compute().as_secs_f64().max(1e-9);
                out.row(
                    b.cause,
                    &[b.count.to_string(), time(b.total), format!("{share:.2} %")],
                );
            }
        }

        out.head("Bytes moved", &["hop", "in all", "each time"]);
        let checkpoints = u.checkpoint.count.max(1);
        for ((short, long), moved) in HOPS.iter().zip(self.hops.0).filter(|(_, moved)| *moved > 0) {
            out.row(
                long,
                &[
                    (*short).to_string(),
                    bytes(moved),
                    bytes(moved / checkpoints),
                ],
            );
        }

        out.rule();
        let (waited, compute) = (time(self.waited()), time(self.compute()));
        out.line(
            &format!("Overhead: {waited} in the library over {compute} of computing"),
            &format!("{:.2} %", self.overhead()),
        );
        if self.software {
            out.note("Computed on the software device, which is not a GPU: these times say");
            out.note("nothing about a GPU's performance.");
        }
        out.text
    }

    /// The same figures for programs. Times are in seconds, sizes in bytes.
    pub fn json(&self) -> Value {
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
        let hops: serde_json::Map<String, Value> = HOPS
            .iter()
            .zip(self.hops.0)
            .map(|((name, _), n)| ((*name).into(), n.into()))
            .collect();
        let blocked: serde_json::Map<String, Value> = self
            .blocked
            .iter()
            .map(|b| {
                let figures = json!({"count": b.count, "total_s": b.total.as_secs_f64()});
                (b.cause.to_string(), figures)
            })
            .collect();
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
            "checkpoint": calls(self.usage.checkpoint),
            "restart": calls(self.usage.restart),
            "compress": calls(self.usage.pack),
            "decompress": calls(self.usage.unpack),
            "bytes_per_hop": hops,
            "blocked": blocked,
            "overhead_percent": self.overhead(),
            "verified": self.verified,
        })
    }
}

/// Count, total, mean and longest of a function's calls.
fn timing(calls: &Calls) -> [String; 4] {
    let mean = calls
        .total
        .checked_div(calls.count.max(1) as u32)
        .unwrap_or_default();
    [
        calls.count.to_string(),
        time(calls.total),
        time(mean),
        time(calls.longest),
    ]
}

/// A table that grows line by line.
#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    /// A section's head: its name and those of its columns.
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
    let columns: String = columns
        .iter()
        .map(|column| format!("{column:>12}"))
        .collect();
    let room = WIDTH.saturating_sub(columns.chars().count());
    // A last column that is wider than the others pushes to the left, not over the edge.
    format!("{name:<room$}{columns}")
}

/// A duration with three digits and its unit.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A size with its unit.
pub fn bytes(count: u64) -> String {
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
    fn hops_are_read_from_text_in_any_order_and_layout() {
        let hops = Hops::parse("DtoH: 12 bytes, AtoD=345\nHtoA 6 (x)");
        let find = |name: &str| hops.0[HOPS.iter().position(|(hop, _)| *hop == name).unwrap()];
        assert_eq!(
            (find("AtoD"), find("DtoH"), find("HtoA"), find("FtoP")),
            (345, 12, 6, 0)
        );
        assert_eq!(Hops::parse(""), Hops::default());
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes(512), "0.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(time(Duration::from_micros(1500)), "1.50 ms");
        assert_eq!(time(Duration::from_nanos(2500)), "2.5 µs");
        assert_eq!(time(Duration::from_secs(75)), "75.00 s");
    }

    fn figures(plan: &Plan) -> Figures<'_> {
        let times = |wall, stored| Times {
            wall: Duration::from_millis(wall),
            stored: Duration::from_millis(stored),
        };
        let calls = |ms| Calls {
            count: 100,
            total: Duration::from_millis(ms),
            longest: Duration::ZERO,
        };
        Figures {
            device: "software device",
            software: true,
            plan,
            modelling: [Duration::from_secs(1); 2],
            forward: times(1050, 50),
            backward: times(1050, 50),
            usage: Usage {
                checkpoint: calls(40),
                restart: calls(20),
                pack: calls(1),
                raw_bytes: 1 << 40,
                kept_bytes: 1 << 38,
                sizes: (1 << 20, 1 << 33),
                ..Usage::default()
            },
            hops: Hops::parse("AtoD 1099511627776 DtoA 1099511627776"),
            blocked: vec![Blocked {
                cause: "device space",
                count: 3,
                total: Duration::ZERO,
            }],
            verified: None,
        }
    }

    #[test]
    fn the_table_fits_80_columns_and_tells_overhead_and_software() {
        let plan = Plan {
            grid: Grid { nx: 10, nz: 10 },
            dt: 0.001,
            frequency: 20.0,
            fastest: 3000.0,
            schedule: Schedule {
                steps: 1000,
                interval: 10,
            },
            source: (5, 2),
            receivers: (vec![5], 2),
        };
        let figures = figures(&plan);
        let table = figures.table();
        for line in table.lines() {
            let line = console::strip_ansi_codes(line);
            assert!(
                line.chars().count() < 80,
                "{} columns: {line}",
                line.chars().count()
            );
        }
        assert!(table.contains("3.00 %"), "{table}");
        assert!(table.contains("not a GPU"));
        assert_eq!(figures.json()["checkpoint"]["count"], 100);
        assert_eq!(figures.json()["checkpoints"], 100);
    }
}
