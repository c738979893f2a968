//! Times of programs that keep arrays, beside the same programs without.

use std::fs;

use anyhow::Result;

use super::programs::Programs;
use super::{tell, PmemOptions};

/// How much longer, in percent, round by round.
fn slower(kept: &[f64], plain: &[f64]) -> Vec<f64> {
    kept.iter().zip(plain).map(|(kept, plain)| 100.0 * (kept / plain - 1.0)).collect()
}

pub(super) fn marks(programs: &Programs, options: &PmemOptions) -> Result<()> {
    let samples = (20 * options.common.repeats).to_string();
    let folder = programs.folder.display().to_string();
    let ended = programs.run("ways", &["marks", &folder, &samples])?;
    let told = |name: &str, what: &str, goal| {
        let values = ended.values(name).iter().map(|time| 1e6 * time).collect();
        tell(format!("{what}{}", programs.note()), "us", values, goal)
    };
    told("line", "a line is stored, flushed and drained", None)?;
    told("mark process", "a mark behind the other, process", Some(1.0))?;
    told("mark power", "a mark behind the other, power", Some(1.0))?;
    told("line after other work", "a line, after 64 MiB of other work", None)?;
    // No goal: a bare line alone takes longer then than a mark may.
    told("mark after other work process", "a mark after 64 MiB of other work, process", None)?;
    told("mark after other work power", "a mark after 64 MiB of other work, power", None)
}

pub(super) fn conjugate_gradients(programs: &Programs, options: &PmemOptions) -> Result<()> {
    let with_pmemobj = programs.ways(true);
    let has_pmemobj = with_pmemobj.is_ok();
    if let Err(error) = with_pmemobj {
        programs.ways(false)?;
        left_out("the undo log (libpmemobj-dev)", &error);
    }
    let [iterations, rounds] = [options.iterations, options.common.repeats].map(|n| n.to_string());
    let folder = programs.folder.display().to_string();
    let ended = programs.run("ways", &["cg", &folder, &options.class, &iterations, &rounds])?;
    let of = format!("conjugate gradients, class {}", options.class);
    let note = programs.note();
    // The goals are for a matrix that is larger than any cache.
    let judged = |goal| (options.class == "C").then_some(goal);
    let plain = ended.values("plain");
    let iteration = plain.iter().map(|time| 1e3 * time / f64::from(options.iterations)).collect();
    tell(format!("{of}: an iteration{note}"), "ms", iteration, None)?;
    let kept = |name: &str, what: &str, goal| {
        let values = slower(&ended.values(name), &plain);
        tell(format!("{of}: {what}{note}"), "% slower", values, goal)
    };
    kept("process", "arrays, process", judged(1.0))?;
    kept("power", "arrays, power", judged(1.0))?;
    kept("async", "checkpoint of p, q, z each iteration, in the background", None)?;
    kept("sync", "checkpoint of p, q, z each iteration, waited for", None)?;
    if has_pmemobj {
        kept("undo", "undo log of p, r, z each iteration (libpmemobj)", None)?;
    }
    let recovery = ended.values("recovery");
    tell(format!("{of}: recovery, by iteration tried{note}"), "x iteration", recovery, Some(2.0))
}

pub(super) fn multiply(programs: &Programs, options: &PmemOptions) -> Result<()> {
    programs.abft(false)?;
    let mut kinds = vec![("abft", "own loop", None)];
    match programs.abft(true) {
        Ok(()) => kinds.push(("abft-blas", "OpenBLAS", (options.order >= 2048).then_some(3.0))),
        Err(error) => left_out("products by OpenBLAS (libopenblas-dev)", &error),
    }
    for (program, kind, goal) in kinds {
        for block in &options.blocks {
            let [order, block] = [options.order, *block].map(|n| n.to_string());
            let (plain, kept) = in_turn(programs, program, &[&order, &block], options)?;
            let what = format!(
                "product of order {}, blocks of {block}, {kind}{}",
                options.order,
                programs.note()
            );
            tell(what, "% slower", slower(&kept, &plain), goal)?;
        }
    }
    Ok(())
}

pub(super) fn transport(programs: &Programs, options: &PmemOptions) -> Result<()> {
    programs.transport()?;
    let lookups = options.lookups.to_string();
    let (plain, kept) = in_turn(programs, "transport", &[&lookups], options)?;
    let what = format!("Monte Carlo, {} lookups{}", options.lookups, programs.note());
    // Groups of fewer lookups than 500 are flushed more often than the goal has it.
    let goal = (options.lookups >= 5_000_000).then_some(1.0);
    tell(what, "% slower", slower(&kept, &plain), goal)
}

/// Says what is not measured, as its program cannot be compiled here.
fn left_out(what: &str, error: &anyhow::Error) {
    let text = format!("{error:#}");
    let why = text.lines().find(|line| line.contains("error")).unwrap_or(&text).trim();
    eprintln!("left out: {what}: {why}");
}

/// The seconds of a program without and with a file, round by round.
fn in_turn(
    programs: &Programs,
    program: &str,
    arguments: &[&str],
    options: &PmemOptions,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let file = programs.folder.join("arrays").display().to_string();
    let rounds = options.common.repeats.to_string();
    let ended = programs.run(program, &[&[&file[..]], arguments, &[&rounds[..]]].concat())?;
    fs::remove_file(&file)?;
    Ok((ended.values("plain"), ended.values("kept")))
}
