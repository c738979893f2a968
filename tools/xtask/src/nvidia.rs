//! Checks with NVIDIA's own parts, without a card: the assembler, the headers, the compiler and the
//! driver's library, each fetched as a package. They are not free software, so the project and its
//! other tests contain nothing of them.

pub mod packages;

pub(crate) mod compiler;

mod functions;
mod kernels;
mod programs;
mod unchanged;
mod without_card;

use crate::error::{Error, Result};

#[derive(Debug, Default)]
struct Findings {
    right: usize,
    wrong: Vec<String>,
}

impl Findings {
    fn add(&mut self, what: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                println!("ok       {what}");
                self.right += 1;
            }
            Err(error) => {
                println!("FAILED   {what}: {error}");
                self.wrong.push(what.to_owned());
            }
        }
    }
}

/// Returns the part that was found; otherwise says that `what` is not checked, and why.
fn had<T>(what: &str, found: Result<T>) -> Option<T> {
    found.map_err(|why| println!("skipped  {what}: {why}")).ok()
}

/// Checks everything for which NVIDIA's parts can be had; the rest is skipped by name. Returns why
/// nothing was checked, if nothing was.
pub fn check() -> Result<Option<&'static str>> {
    let mut findings = Findings::default();
    kernels::check(&mut findings)?;
    functions::check(&mut findings)?;
    without_card::check(&mut findings)?;
    programs::check(&mut findings)?;
    if !findings.wrong.is_empty() {
        return Err(Error::new(findings.wrong.join("; ")));
    }
    println!("{} checks", findings.right);
    Ok((findings.right == 0).then_some("none of NVIDIA's packages can be had"))
}
