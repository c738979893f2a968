//! Kernels from PTX: translated to C, one function for each, and compiled by the system's C compiler when
//! a program first asks for one of a module.
//!
//! The threads of a launch run one after the other on the stream's thread, so kernels whose threads
//! wait for each other (barriers, shared memory, warps) are refused by name, and so is every
//! instruction that is not known here.

mod compile;
mod statement;
mod text;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use compile::Compiled;
use statement::Scope;
use text::{Entry, Module};

use crate::kernels::Kernel;
use crate::notice::notice;
use crate::status::{Outcome, Status};

/// What stands before the kernels: how they reach memory, and the registers' other readings.
const PRELUDE: &str = include_str!("prelude.c");

/// The code of a module.
pub(crate) struct Code {
    ptx: Option<String>,
    compiled: OnceLock<Option<Compiled>>,
}

impl Code {
    /// From PTX, or none.
    pub(crate) fn new(ptx: Option<String>) -> Self {
        Self { ptx, compiled: OnceLock::new() }
    }

    /// The kernel of this name.
    pub(crate) fn kernel(&self, name: &str) -> Outcome<Arc<Kernel>> {
        let ptx = self.ptx.as_deref().ok_or(Status::NOT_FOUND)?;
        let compile = || Compiled::new(ptx).map_err(|why| notice(&format!("PTX: {why}"))).ok();
        let compiled = self.compiled.get_or_init(compile).as_ref().ok_or(Status::INVALID_PTX)?;
        compiled.kernel(name).ok_or(Status::NOT_FOUND)
    }
}

/// A kernel's name, and the sizes of its parameters in bytes.
type Signature = (String, Vec<usize>);

/// The C text of all kernels of a module, and the sizes of their parameters.
///
/// # Errors
/// What is not understood, with its line.
fn translate(ptx: &str) -> Result<(String, Vec<Signature>), String> {
    let module = Module::parse(ptx)?;
    let mut out = String::from(PRELUDE);
    for variable in &module.variables {
        let bytes: Vec<String> = variable.bytes.iter().map(u8::to_string).collect();
        let _ = writeln!(
            out,
            "static unsigned char g_{}[{}] __attribute__((aligned(16))) = {{{}}};",
            variable.name,
            variable.size.max(1),
            bytes.join(", ")
        );
    }
    let mut kernels = Vec::new();
    for entry in &module.entries {
        kernel(&mut out, &module, entry)?;
        kernels.push((entry.name.clone(), entry.params.iter().map(|param| param.size).collect()));
    }
    Ok((out, kernels))
}

fn kernel(out: &mut String, module: &Module, entry: &Entry) -> Result<(), String> {
    let name = &entry.name;
    let scope = Scope::new(module, entry)?;
    let mut body = String::new();
    for line in &entry.lines {
        let code = scope.statement(line).map_err(|why| format!("{name}: `{line}`: {why}"))?;
        let _ = writeln!(body, "  {code}");
    }
    let registers = scope.declarations();
    let _ = write!(
        out,
        "static int t_{name}(struct run *run, const struct place *place, void **params) {{\n\
         {registers}  (void)run; (void)place; (void)params;\n{body}  return 0;\n}}\n\
         void {name}(const struct launch *launch) {{ all_threads(launch, t_{name}); }}\n"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
