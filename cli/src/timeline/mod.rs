//! `veloc timeline`: the trace of a job as one picture, in the manner of figure 1 of HiPC'22.
//!
//! | file | does |
//! | --- | --- |
//! | `read` | the files: whole or cut, one or several |
//! | `job` | what they tell, by process |
//! | `lanes` | which spans go to which row |
//! | `colours` | what has which colour and which name in the legend |
//! | `occupancy` | the lines below |
//! | `picture` | puts it all together |

use std::path::{Path, PathBuf};

use anyhow::{ensure, Result};
use clap::Args;

use crate::draw;

mod colours;
mod job;
mod lanes;
mod occupancy;
mod picture;
mod read;

/// Draw what a job has recorded (VELOC_TRACE) as one picture
///
/// Ends with exit code 1 if a file cannot be read or there is nothing to draw.
#[derive(Debug, Args)]
pub struct Timeline {
    /// Traces; those of several processes of a node share one axis
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to draw: STEM.svg and STEM.png [default: the first file's name, less its .json, with
    /// -timeline behind it]
    #[arg(long, value_name = "STEM")]
    out: Option<PathBuf>,
    /// Begin so many ms after the first event
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    from: f64,
    /// End so many ms after the first event [default: at the last one]
    #[arg(long, value_name = "MS")]
    to: Option<f64>,
    /// Draw only the process of this rank, or with this process id
    #[arg(long, value_name = "N")]
    process: Option<u64>,
    /// Let the traces of every file begin at 0, one below the other: strategies side by side, as in
    /// figure 1 of HiPC'22
    #[arg(long)]
    compare: bool,
    /// What to write above the picture [default: what the traces say of the job]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Draws.
pub fn run(timeline: &Timeline) -> Result<()> {
    let mut files = Vec::new();
    for file in &timeline.files {
        let (read, cut) = read::events(file)?;
        if !read.iter().any(|event| event.ph == "X") {
            // Of a process that was killed at once, beside others.
            eprintln!("{} has no spans to draw", file.display());
            continue;
        }
        if cut {
            eprintln!("{}: the end is missing; drawing what is there", file.display());
        }
        files.push(read);
    }
    ensure!(!files.is_empty(), "there is nothing to draw");
    let mut jobs = if timeline.compare { job::side_by_side(&files) } else { job::of_files(&files) };
    if let Some(wanted) = timeline.process {
        let there: Vec<String> = jobs.iter().map(job::Process::title).collect();
        jobs.retain(|process| process.is(wanted));
        ensure!(!jobs.is_empty(), "--process {wanted}: there are {}", there.join(", "));
    }
    let (first, last) = job::extent(&jobs);
    let to = timeline.to.unwrap_or(last - first);
    ensure!(
        timeline.from < to && timeline.from < last - first,
        "--from {} --to {to}: the traces reach from 0 to {:.3} ms",
        timeline.from,
        last - first
    );
    let window = picture::Window { origin: first, from: timeline.from, to };
    let svg = picture::draw(&jobs, window, timeline.title.as_deref());
    let stem = timeline.out.clone().unwrap_or_else(|| stem(&timeline.files[0]));
    for path in draw::save(&svg, &stem)? {
        println!("{}", path.display());
    }
    for process in jobs.iter().filter(|process| process.dropped() > 0) {
        eprintln!("{}: {} records are missing", process.title(), process.dropped());
    }
    Ok(())
}

/// The name of a trace without its `.json`, and what tells the picture from others of the same job.
fn stem(file: &Path) -> PathBuf {
    let mut name = match file.extension() {
        Some(extension) if extension == "json" => file.with_extension(""),
        _ => file.to_owned(),
    }
    .into_os_string();
    name.push("-timeline");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_lie_beside_their_traces() {
        assert_eq!(stem(Path::new("a/t.json")), Path::new("a/t-timeline"));
        assert_eq!(stem(Path::new("a/t.json.1")), Path::new("a/t.json.1-timeline"));
    }

    /// From the file to both pictures, and the refusals on the way.
    #[test]
    fn a_trace_becomes_two_pictures() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.json");
        std::fs::write(&trace, job::tests::SMALL).unwrap();
        let ask = |from, to, process| Timeline {
            files: vec![trace.clone()],
            out: Some(folder.path().join("picture")),
            from,
            to,
            process,
            title: None,
            compare: false,
        };
        run(&ask(0.0, None, None)).unwrap();
        for extension in ["svg", "png"] {
            assert!(folder.path().join("picture").with_extension(extension).exists());
        }
        run(&ask(1.0, Some(2.0), Some(3))).unwrap();
        // Beside one that was killed before it did anything.
        let nothing = folder.path().join("t.json.1");
        for text in ["", "[", "[\n{\"ph\":\"M\"}"] {
            std::fs::write(&nothing, text).unwrap();
            let mut both = ask(0.0, None, None);
            both.files.push(nothing.clone());
            run(&both).unwrap();
            both.files.remove(0);
            let error = run(&both).unwrap_err().to_string();
            assert!(error.contains("nothing to draw"), "{error}");
        }
        let error = run(&ask(0.0, None, Some(9))).unwrap_err().to_string();
        assert!(error.contains("--process 9") && error.contains("rank 3"), "{error}");
        let error = run(&ask(1e9, None, None)).unwrap_err().to_string();
        assert!(error.contains("--from 1000000000"), "{error}");
    }
}
